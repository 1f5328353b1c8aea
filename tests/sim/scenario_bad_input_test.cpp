// What is said of files that cannot be run: the place, the line, a caret, what would be right.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ScenarioBadInput, AnEmptyFile) {
  const std::string message =
      "x.yaml: error: the file is empty\n"
      "  a scenario has at least zero3sim, model and program (docs/scenario-format.md)";
  EXPECT_EQ(error_of(""), message);
  EXPECT_EQ(error_of("# nothing\n"), message);
}

TEST(ScenarioBadInput, ABinaryFile) {
  EXPECT_EQ(error_of(std::string("\x7f"
                                 "ELF\x02\x01\x00",
                                 7)),
            "x.yaml:1:5: error: a control character (0x02): this is not a text file\n"
            "  ?ELF???\n"
            "      ^\n"
            "  a scenario is YAML text in UTF-8");
}

TEST(ScenarioBadInput, BytesThatAreNotUtf8) {
  EXPECT_EQ(error_of("zero3sim: 1\nname: caf\xe9\n"),
            "x.yaml:2:10: error: the byte 0xe9 is not UTF-8\n"
            "  name: caf?\n"
            "           ^\n"
            "  save the file as UTF-8");
  EXPECT_THAT(error_of("a: \xc0\xaf"), HasSubstr("the byte 0xc0 is not UTF-8"));      // overlong
  EXPECT_THAT(error_of("a: \xed\xa0\x80"), HasSubstr("the byte 0xed is not UTF-8"));  // a surrogate
  EXPECT_THAT(error_of("a: \xf0\x9f\x98"), HasSubstr("the byte 0xf0 is not UTF-8"));  // cut short
}

TEST(ScenarioBadInput, ATruncatedFile) {
  EXPECT_EQ(error_of("zero3sim: 1\nmodel: {children: {fc1: ReLU}\n"),
            "x.yaml:2:8: error: not YAML: end of map flow not found\n"
            "  model: {children: {fc1: ReLU}\n"
            "         ^\n"
            "  look at the indentation, the brackets and the quotes here and above");
  EXPECT_EQ(error_of("zero3sim: 1\nmodel: {preset: mlp}\n"),
            "x.yaml:1:1: error: the scenario has no program\n"
            "  zero3sim: 1\n"
            "  ^\n"
            "  for example program: [{repeat: 2, do: [train]}]");
}

TEST(ScenarioBadInput, DeepNesting) {
  EXPECT_THAT(error_of("a: " + std::string(20'000, '[')),
              StartsWith("x.yaml:1:10004: error: brackets without end"));
  EXPECT_THAT(error_of("a: " + std::string(200, '[') + std::string(200, ']')),
              StartsWith("x.yaml:1:103: error: nested more than 100 deep"));
  std::string dashes;
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  EXPECT_THAT(error_of(dashes), StartsWith("x.yaml:1:201: error: nested more than 100 deep"));
  std::string lines;
  for (size_t i = 0; i < 1000; ++i) lines += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(error_of(lines), StartsWith("x.yaml:101:101: error: nested more than 100 deep"));
}

TEST(ScenarioBadInput, AliasesTagsAndSecondDocuments) {
  EXPECT_EQ(error_of("zero3sim: 1\nplans: {a: &x [fc1], b: *x}\n"),
            "x.yaml:2:12: error: anchors and aliases are not used here\n"
            "  plans: {a: &x [fc1], b: *x}\n"
            "             ^\n"
            "  name a plan under 'plans:' and write its name");
  EXPECT_EQ(error_of("zero3sim: !!int 1\n"),
            "x.yaml:1:11: error: the tag 'tag:yaml.org,2002:int' is not used here\n"
            "  zero3sim: !!int 1\n"
            "            ^\n"
            "  leave it out");
  EXPECT_THAT(error_of("zero3sim: 1\n---\nzero3sim: 1\n"), HasSubstr("error: a second YAML document"));
}

TEST(ScenarioBadInput, DuplicateKeys) {
  EXPECT_EQ(error_of("zero3sim: 1\nmodel:\n  children:\n    fc1: ReLU\n    fc1: GELU\n"),
            "x.yaml:5:5: error: duplicate key 'fc1'\n"
            "      fc1: GELU\n"
            "      ^\n"
            "  keep one of them");
}

TEST(ScenarioBadInput, AFileOfAnotherKindOrANewerFormat) {
  EXPECT_EQ(error_of("{\"train_batch_size\": 8}"),
            "x.yaml:1:1: error: this is no scenario: the key zero3sim is missing\n"
            "  {\"train_batch_size\": 8}\n"
            "  ^\n"
            "  its first line is zero3sim: 1");
  EXPECT_EQ(error_of("zero3sim: 2\nworlds: 3\n"),
            "x.yaml:1:11: error: format 2 is newer than this program, which reads format 1\n"
            "  zero3sim: 2\n"
            "            ^\n"
            "  use a newer zero3sim");
}

TEST(ScenarioBadInput, UnknownKeysNameTheNearestKnown) {
  EXPECT_EQ(error_of(kThreeLayers + "programme: [train]\n"),
            "x.yaml:3:1: error: unknown key 'programme' in a scenario\n"
            "  programme: [train]\n"
            "  ^\n"
            "  did you mean 'program'?");
}

TEST(ScenarioBadInput, AModuleThatIsNotThere) {
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - train: fc1 act fc3\n"),
            "x.yaml:4:20: error: the model has no module 'fc3'\n"
            "    - train: fc1 act fc3\n"
            "                     ^\n"
            "  did you mean 'fc1'?");
  EXPECT_THAT(error_of(kThreeLayers + "program: [{train: \"fc1[inner]\"}]\n"),
              StartsWith("x.yaml:3:24: error: 'fc1' has no module 'inner'"));
}

TEST(ScenarioBadInput, BracketsAndSuffixesOfPlans) {
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - train: fc1[act\n"),
            "x.yaml:4:15: error: '[' without its ']'\n"
            "    - train: fc1[act\n"
            "                ^");
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - train: fc1] act\n"),
            "x.yaml:4:15: error: ']' without its '['\n"
            "    - train: fc1] act\n"
            "                ^");
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - train: fc1:checkpiont\n"),
            "x.yaml:4:16: error: unknown suffix ':checkpiont'\n"
            "    - train: fc1:checkpiont\n"
            "                 ^\n"
            "  did you mean 'checkpoint'?");
}

TEST(ScenarioBadInput, PlansThatUseThemselves) {
  EXPECT_EQ(error_of(kThreeLayers + "plans: {a: fc1 b, b: a}\nprogram: [{train: a}]\n"),
            "x.yaml:3:22: error: the plan 'a' uses itself\n"
            "  plans: {a: fc1 b, b: a}\n"
            "                       ^");
}

TEST(ScenarioBadInput, PlansThatExplode) {
  std::string text = kThreeLayers + "plans:\n  p0: fc1 fc1\n";
  for (int i = 1; i < 40; ++i)
    text += "  p" + std::to_string(i) + ": p" + std::to_string(i - 1) + " p" + std::to_string(i - 1) + "\n";
  EXPECT_THAT(error_of(text + "program: [{train: p39}]\n"), HasSubstr("call more than 1000000 modules"));
}

TEST(ScenarioBadInput, StepsThatAreNotThere) {
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - trian: all\n"),
            "x.yaml:4:5: error: unknown step 'trian'\n"
            "    - trian: all\n"
            "      ^\n"
            "  did you mean 'train'?");
  EXPECT_EQ(error_of(kThreeLayers + "program: [save_chekpoint]\n"),
            "x.yaml:3:11: error: unknown step 'save_chekpoint'\n"
            "  program: [save_chekpoint]\n"
            "            ^\n"
            "  did you mean 'save_checkpoint'?");
  EXPECT_EQ(error_of(kThreeLayers + "program: []\n"),
            "x.yaml:3:10: error: the program is empty\n"
            "  program: []\n"
            "           ^\n"
            "  for example program: [{repeat: 2, do: [train]}]");
}

TEST(ScenarioBadInput, ParamsOutOfRange) {
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - gather: [fc1.wieght]\n"),
            "x.yaml:4:14: error: there is no parameter or module 'fc1.wieght'\n"
            "    - gather: [fc1.wieght]\n"
            "               ^\n"
            "  did you mean 'weight'?");
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - {gather: fc1, modifier_rank: 4}\n"),
            "x.yaml:4:5: error: modifier_rank 4 of 1 rank(s)\n"
            "    - {gather: fc1, modifier_rank: 4}\n"
            "      ^\n"
            "  ranks count from 0; run with more ranks");
}

TEST(ScenarioBadInput, AnEngineThatIsNotThere) {
  EXPECT_EQ(error_of(kThreeLayers +
                     "engines: [{name: actor}, {name: critic}]\nprogram: [{train: all, engine: citric}]\n"),
            "x.yaml:4:32: error: there is no engine 'citric'\n"
            "  program: [{train: all, engine: citric}]\n"
            "                                 ^\n"
            "  did you mean 'critic'?");
}

TEST(ScenarioBadInput, ABranchThatNoRankTakes) {
  EXPECT_EQ(error_of(kThreeLayers + "ranks: 2\nprogram:\n  - when: {rank: [7]}\n    do: [train]\n"),
            "x.yaml:5:18: error: no rank takes this branch: rank 7 of 2 rank(s)\n"
            "    - when: {rank: [7]}\n"
            "                   ^\n"
            "  ranks count from 0; 'ranks:' at the top says how many there are");
  EXPECT_EQ(error_of(kThreeLayers + "program:\n  - when: {iteration: 1}\n    do: [train]\n"),
            "x.yaml:4:23: error: no rank takes this branch: there is no repeat around it\n"
            "    - when: {iteration: 1}\n"
            "                        ^\n"
            "  iterations are those of the nearest repeat");
  EXPECT_EQ(
      error_of(kThreeLayers + "program:\n  - {repeat: 3, do: [{when: {iteration: [0, 4]}, do: [train]}]}\n"),
      "x.yaml:4:41: error: no rank takes this branch: iteration 0 of 3\n"
      "    - {repeat: 3, do: [{when: {iteration: [0, 4]}, do: [train]}]}\n"
      "                                          ^\n"
      "  iterations count from 1");
  EXPECT_EQ(error_of(kThreeLayers + "ranks: 2\nprogram:\n  - when: {rank: [0, 1]}\n    do: [train]\n"
                                    "    else: [evaluate]\n"),
            "x.yaml:7:5: error: no rank takes 'else': every rank takes the other branch\n"
            "      else: [evaluate]\n"
            "      ^\n"
            "  leave it out");
  // Some rank takes each of these.
  scenario(kThreeLayers + "ranks: 2\nprogram: [{when: {rank: [1, 7]}, do: [train], else: [evaluate]}]\n");
  scenario(kThreeLayers +
           "program: [{repeat: 2, do: [{when: {iteration: 2}, do: [train], else: [evaluate]}]}]\n");
}

TEST(ScenarioBadInput, ProgramsWithoutEnd) {
  EXPECT_THAT(error_of(kThreeLayers + "program: [{repeat: 1e6, do: [step, step]}]\n"),
              HasSubstr("the program has more than 1000000 steps, repeats counted out"));
  EXPECT_THAT(
      error_of(kThreeLayers +
               "program: [{repeat: 1e6, do: [{repeat: 1e6, do: [{when: {iteration: 7}, do: [step]}]}]}]\n"),
      HasSubstr("the program repeats too much"));
}

TEST(ScenarioBadInput, AFileThatIsNotThereOrAFolder) {
  EXPECT_THROW(
      {
        try {
          load_scenario("no/such.yaml");
        } catch (const BadInput& error) {
          EXPECT_STREQ(error.what(), "no/such.yaml: error: cannot be read: No such file or directory");
          throw;
        }
      },
      BadInput);
  EXPECT_THROW(load_scenario("scenarios"), BadInput);
}

TEST(ScenarioBadInput, Ranks) {
  const Scenario three = scenario(kThreeLayers + "program: [train]\n");
  EXPECT_THROW(three.experiment(0, 0), BadInput);
  EXPECT_THROW(three.experiment(-1, 0), BadInput);
  EXPECT_EQ(error_of(kThreeLayers + "ranks: 0\nprogram: [train]\n"),
            "x.yaml:3:8: error: ranks is 0\n"
            "  ranks: 0\n"
            "         ^\n"
            "  at least 1");
}

}  // namespace
}  // namespace zero3::sim
