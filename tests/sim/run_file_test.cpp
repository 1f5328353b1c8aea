// Run files: what an experiment is written as, and that it comes back the same.
#include "sim/run_file/run_file.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "sim/bad_input.h"
#include "sim/scenario/scenario.h"
#include "sim/short_form.h"

namespace zero3::sim {
namespace {

TEST(WriteRun, SpellsOutTheShortForm) {
  ShortFormOptions options;
  options.ranks = 2;
  EXPECT_EQ(write_run(parse_short_form("t:AB t:AB gm:A", options), "t:AB t:AB gm:A", 7),
            R"({"format":"zero3sim-run","version":1,"name":"t:AB t:AB gm:A","ranks":2,"seed":7,)"
            R"("input_requires_grad":true,"deepspeed_config":{"gradient_accumulation_steps":1,)"
            R"("fp16":{"enabled":false},"zero_optimization":{"stage":3,"stage3_prefetch_bucket_size":100,)"
            R"("stage3_max_live_parameters":1000000,"stage3_max_reuse_distance":0,)"
            R"("stage3_param_persistence_threshold":0,)"
            R"("stage3_model_persistence_threshold":9223372036854775807,)"
            R"("stage3_gather_16bit_weights_on_model_save":true,"log_trace_cache_warnings":false}},)"
            R"("engines":[{"root":0,"optimizer":true}],"modules":[{"name":"root","type":"Root",)"
            R"("children":[["A",1],["B",2],["C",3],["D",4],["E",5],["F",6]]},)"
            R"({"name":"A","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"B","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"C","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"D","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"E","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"F","type":"Linear","params":[{"name":"weight","shape":[8,8]}]}]})"
            "\n"
            R"({"plan":0,"calls":[1,2]})"
            "\n"
            R"({"rank":0,"text":"t:AB","ops":[{"op":"train"},{"op":"forward","plan":0},)"
            R"({"op":"backward"},{"op":"step"}]})"
            "\n"
            R"({"rank":0,"text":"t:AB","ops":[{"op":"train"},{"op":"forward","plan":0},)"
            R"({"op":"backward"},{"op":"step"}]})"
            "\n"
            R"({"rank":0,"text":"gm:A","ops":[{"op":"gather","params":[[1,0]],"modifier_rank":0},)"
            R"({"op":"gather_exit"}]})"
            "\n"
            R"({"rank":1,"same_as":0})"
            "\n"
            R"({"end":true})"
            "\n");
}

// Places say where in a file a statement stands: another file, another place.
Experiment without_places(Experiment experiment) {
  for (Program& program : experiment.rank_programs) {
    for (Statement& statement : program) statement.place = {};
  }
  return experiment;
}

std::vector<std::string> all_scenarios() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("scenarios")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

class EveryScenario : public testing::TestWithParam<std::string> {};

TEST_P(EveryScenario, ComesBackFromItsRunFile) {
  const Scenario scenario = load_scenario(GetParam());
  const Experiment experiment = scenario.experiment();
  const std::string text = write_run(experiment, scenario.name, scenario.seed);
  const std::vector<RecordedRun> runs = read_runs(text, "run");
  ASSERT_EQ(runs.size(), 1);
  EXPECT_TRUE(without_places(runs[0].experiment) == without_places(experiment));
  EXPECT_EQ(runs[0].name, scenario.name);
  EXPECT_EQ(runs[0].seed, scenario.seed);
  EXPECT_FALSE(runs[0].partial);
  EXPECT_EQ(write_run(runs[0]), text);
}

INSTANTIATE_TEST_SUITE_P(Library, EveryScenario, testing::ValuesIn(all_scenarios()),
                         [](const auto& scenario) {
                           std::string name = scenario.param;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; },
                               '_');
                           return name;
                         });

Experiment scenario_of(const std::string& model, const std::string& program) {
  const std::string text = "zero3sim: 1\nranks: 3\nmodel: {" + model + "}\nprogram: " + program + "\n";
  return parse_scenario("test.yaml", text).experiment(3, 5);
}

TEST(RunFile, KeepsWhatOnlySomeModelsHave) {
  const Experiment experiment = scenario_of(
      "params: {scale: [4]}, freeze: [a], leaf_modules: [Block], other_roots: {critic: {children: {e: "
      "{same_as: a}}}},"
      " children: {a: \"Linear(4, 4)\", b: {type: Block, outputs: 2, params: {w: {same_as: a.weight}},"
      " external: [scale, {param: a.bias, registered: true}]}, again: {same_as: b}}",
      "[{train: 'a:reentrant:detach b:checkpoint:discard[a:whole_recompute]'}, {forward: b, direct: true, "
      "grad: false},"
      " {gather: [a.weight], modifier_rank: 2, do: [{unwrap_model_for_generation: [evaluate]}]},"
      " overflowing_step, {when: {rank: 0}, do: [save_16bit_model]}]");
  EXPECT_TRUE(without_places(read_runs(write_run(experiment, "x", 5), "run")[0].experiment) ==
              without_places(experiment));
}

// A recorded plan of module 1, whose body is a region.
std::string recorded_run(const std::string& region) {
  const std::string text = write_run(parse_short_form("f:A", {}), "x", 0);
  const std::string plan = R"({"plan":0,"calls":[1]})";
  const size_t at = text.find(plan);
  EXPECT_NE(at, std::string::npos);
  return text.substr(0, at) + R"({"plan":0,"root":{},"calls":[[1,[)" + region + "]]]}" +
         text.substr(at + plan.size());
}

TEST(RunFile, HoldsTheRegionsOfRecordedPlans) {
  for (const char* region :
       {R"({"region":"non-reentrant","calls":[2,[3,[{"stop":true}]]]})",
        R"({"region":"reentrant","calls":[{"module":2,"in":[0,0],"first_in":[1],"first_out":[0,2]},)"
        R"({"read":[1,0]}],"out":[1,0]})",
        R"({"region":"whole-recompute","calls":[{"region":"reentrant","calls":[2]}]},4)"}) {
    const std::string text = recorded_run(region);
    const std::vector<RecordedRun> runs = read_runs(text, "run");
    ASSERT_EQ(runs.size(), 1) << region;
    const std::vector<Op>& ops = runs[0].experiment.rank_programs[0][0].ops;
    const auto forward = std::ranges::find(ops, OpKind::kForward, &Op::kind);
    ASSERT_NE(forward, ops.end());
    EXPECT_TRUE(forward->plan.at(0).children.at(0).is_region()) << region;
    EXPECT_EQ(write_run(runs[0]), text);
  }
}

TEST(RunFile, SaysWhatIsWrongWithARegion) {
  const auto wrong = [](const std::string& region) {
    try {
      read_runs(recorded_run(region), "run");
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(wrong(R"({"region":"often","calls":[]})").find("run:2:44: error: unknown checkpointing"),
            std::string::npos)
      << wrong(R"({"region":"often","calls":[]})");
  for (const auto& [region, message] :
       {std::pair{R"({"region":"reentrant"})", "calls"}, std::pair{R"({"stop":false})", "\"stop\" is true"},
        std::pair{R"({"stop":1})", "stop"}, std::pair{R"({"module":2,"first_in":[]})", "1 or 2 numbers"},
        std::pair{R"({"module":2,"checkpoint":"reentrant"})", "checkpoint"},
        std::pair{R"({"region":"reentrant","calls":[],"module":1})", "module"}})
    EXPECT_NE(wrong(region).find(message), std::string::npos) << region << wrong(region);
  EXPECT_THROW(read_runs(R"({"region":"reentrant","calls":[]})", "run"), BadInput);
}

TEST(RunFile, HoldsRanksThatDoNothing) {
  const Experiment experiment = scenario_of("children: {a: ReLU}", "[{when: {rank: 1}, do: [train]}]");
  const std::string text = write_run(experiment, "x", 0);
  EXPECT_NE(text.find("{\"rank\":0}\n"), std::string::npos);
  EXPECT_NE(text.find("{\"rank\":2,\"same_as\":0}\n"), std::string::npos);
  EXPECT_TRUE(without_places(read_runs(text, "run")[0].experiment) == without_places(experiment));
}

TEST(RunFile, HoldsRunsOneAfterTheOther) {
  const std::string one = write_run(parse_short_form("t:A", {}), "one", 1);
  const std::string two = write_run(parse_short_form("f:B", {}), "two", 2);
  const std::vector<RecordedRun> runs = read_runs(one + "\n" + two, "run");
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].name, "one");
  EXPECT_EQ(runs[1].name, "two");
}

TEST(RunFile, SaysWhatItWasRecordedOn) {
  RecordedRun run{parse_short_form("t:A", {}), "train.py", 0, false,
                  RecordedOn{"0.15.2", "2.1", "", "train.py"}};
  const std::string text = write_run(run);
  EXPECT_NE(text.find(R"("recorded":{"deepspeed":"0.15.2","torch":"2.1","command":"train.py"})"),
            std::string::npos);
  EXPECT_EQ(read_runs(text, "run")[0].recorded, run.recorded);
}

// Wherever it is cut behind the first line: the statements before it are there.
TEST(RunFile, IsReadUpToTheCut) {
  ShortFormOptions options;
  options.ranks = 2;
  const Experiment experiment = parse_short_form("t:AB f:A", options);
  const std::string text = write_run(experiment, "x", 0);
  const size_t header = text.find('\n');
  EXPECT_THROW(read_runs(text.substr(0, header / 2), "run"), BadInput);
  for (size_t size = header + 1; size < text.size() - 1; ++size) {
    const std::vector<RecordedRun> runs = read_runs(text.substr(0, size), "run");
    ASSERT_EQ(runs.size(), 1) << size;
    EXPECT_TRUE(runs[0].partial) << size;
    const std::vector<Program>& programs = runs[0].experiment.rank_programs;
    ASSERT_EQ(programs.size(), 2);
    for (size_t i = 0; i < programs[0].size(); ++i)
      EXPECT_EQ(programs[0][i].ops, experiment.rank_programs[0][i].ops);
  }
  EXPECT_FALSE(read_runs(text.substr(0, text.size() - 1), "run")[0].partial);
}

// What reading that text says, without the line and the caret.
std::string complaint(const std::string& text) {
  try {
    read_runs(text, "run");
  } catch (const BadInput& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "nothing";
}

// A run of two ranks with one thing replaced.
std::string complaint(const std::string& was, const std::string& now) {
  ShortFormOptions options;
  options.ranks = 2;
  std::string text = write_run(parse_short_form("t:AB gm:A r", options), "x", 0);
  const size_t at = text.find(was);
  if (at == std::string::npos) return "no such text: " + was;
  return complaint(text.replace(at, was.size(), now));
}

TEST(RunFile, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(complaint("\"version\":1", "\"version\":2"),
            "run:1:36: error: version 2 is newer than this program, which reads version 1");
  EXPECT_EQ(complaint("zero3sim-run", "zero3sim-walk"), "run:1:1: error: this is no run file");
  EXPECT_EQ(complaint("\"seed\"", "\"sead\""),
            "run:1:59: error: the first line has the unknown key \"sead\"");
  EXPECT_EQ(complaint("\"stage\":3", "\"stage\":2").substr(0, 10), "run:1:201:");
  EXPECT_EQ(complaint("\"op\":\"step\"", "\"op\":\"stop\""), "run:3:97: error: unknown op \"stop\"");
  EXPECT_EQ(complaint("\"op\":\"step\"", "\"op\":\"step\",\"plan\":0"),
            "run:3:104: error: \"step\" has the unknown key \"plan\"");
  EXPECT_EQ(complaint("\"text\":\"r\"", "\"text\":\"r\",\"when\":0"),
            "run:5:22: error: a statement has the unknown key \"when\"");
}

TEST(RunFile, RefusesNumbersOutOfRange) {
  EXPECT_EQ(complaint("[8,8]", "[8,-8]").find("error: an extent must be a whole number from 0"), 11);
  EXPECT_EQ(
      complaint("[8,8]", "[4611686018427387904,2]").find("error: a parameter has more than 2^62 elements"),
      11);
  EXPECT_EQ(complaint("[8,8]", "[4611686018427387904]").find("error: the model has more than 2^62 elements"),
            11);
  EXPECT_EQ(complaint("[8,8]", "[18446744073709551616]").find("error: an extent must be a whole number"), 11);
  EXPECT_EQ(complaint("\"calls\":[1,2]", "\"calls\":[1,7]"),
            "run:2:22: error: a module's number must be a whole number from 0 to 6");
  EXPECT_EQ(complaint("\"calls\":[1,2]", "\"calls\":[1,[2,2]]"),
            "run:2:25: error: the calls of a call must be a list");
  EXPECT_EQ(complaint("\"plan\":0,\"calls\"", "\"plan\":1,\"calls\""),
            "run:2:9: error: the next plan is plan 0");
  EXPECT_EQ(complaint("\"forward\",\"plan\":0", "\"forward\",\"plan\":1").substr(0, 9), "run:3:70:");
  EXPECT_EQ(complaint("[[1,0]]", "[[1,1]]"),
            "run:4:60: error: a parameter's number must be a whole number from 0 to 0");
  EXPECT_EQ(complaint("\"modifier_rank\":0", "\"modifier_rank\":2").substr(0, 8), "run:4:80");
  EXPECT_EQ(complaint("\"ranks\":2", "\"ranks\":0").substr(0, 8), "run:1:57");
}

TEST(RunFile, RefusesWhatDoesNotFit) {
  EXPECT_EQ(complaint("{\"rank\":1,\"same_as\":0}\n", ""),
            "run:6:1: error: the run ends without statements of rank 1");
  EXPECT_EQ(complaint("{\"end\"", "{\"rank\":1,\"text\":\"s\",\"ops\":[]}\n{\"end\""),
            "run:7:1: error: all of rank 1 was said already");
  EXPECT_EQ(complaint("\"rank\":0", "\"rank\":1"), "run:3:9: error: the ranks follow one after the other");
  EXPECT_EQ(complaint("{\"op\":\"unwrap\"},", ""), "run:5:29: error: unwrap_exit without its unwrap");
  EXPECT_EQ(
      complaint("[[\"A\",1],[\"B\",2]", "[[\"A\",1],[\"A\",2]").find("error: the name 'A' a second time"),
      11);
  EXPECT_EQ(complaint("{\"name\":\"A\",\"type\":\"Linear\",",
                      "{\"name\":\"A\",\"type\":\"Linear\",\"children\":[[\"r\",0]],")
                .find("error: a cycle: module 0 is below itself"),
            11);
  EXPECT_EQ(
      complaint("\"shape\":[8,8]", "\"same_as\":[1,0]").find("error: \"same_as\" names a parameter that is"),
      11);
  EXPECT_EQ(complaint("\"seed\":0", "\"seed\":0,\"seed\":0"),
            "run:1:68: error: the key \"seed\" a second time");
}

TEST(RunFile, RefusesWhatIsNoRunFile) {
  EXPECT_EQ(complaint(""), "run:1:1: error: no run in this file");
  EXPECT_EQ(complaint("zero3sim: 1\n"), "run:1:1: error: not JSON here");
  EXPECT_EQ(complaint("[]\n"), "run:1:1: error: this is no run file");
  EXPECT_EQ(complaint(std::string(5000, '[') + "\n"), "run:1:1101: error: more than 1100 nested brackets");
}

}  // namespace
}  // namespace zero3::sim
