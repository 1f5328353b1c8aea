// zero3sim verify with a probe that replays a trace of real DeepSpeed: what it prints, and its exit codes.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kProgram = "--program 't:ABC t:ABC t:AC' --ranks 2";

Outcome verify(const std::string& behaviour, const std::string& words) {
  return shell("FAKE_PROBE=" + shell_quoted(behaviour) +
               " FAKE_PROBE_TRACE=tests/sim/verify/v0.15.2.skipped-layer.jsonl"
               " zero3sim verify --python tests/sim/verify/fake_probe " +
               words);
}

TEST(Verify, AgreesWithRealDeepSpeed) {
  const Outcome outcome = verify("", kProgram);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "DeepSpeed 0.15.2 (torch 2.15.0, Python 3.11.2)\n"
            "t:ABC t:ABC t:AC, 2 ranks: agrees (6 statements, 127 events)\n");
  EXPECT_EQ(outcome.errors, "");  // no progress where nobody watches
}

TEST(Verify, ShowsTheFirstDifferenceAndTheFlagThatDecides) {
  const Outcome outcome = verify("release=0.15.3", kProgram);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("2 ranks: differs at step 3 (t:AC) on rank 0: event\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\n  > release B.weight (cleaned)                     | fetch C#3 [2] forward\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  decides: invalidation_cleans_inflight = false"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  repeat: zero3sim verify --program 't:ABC t:ABC t:AC' "));
  for (const std::string& line : lines_of(outcome.out.substr(0, outcome.out.find("  decides"))))
    EXPECT_LE(line.size(), 100U) << line;
}

TEST(Verify, SaysWhenThereIsNoModelOfTheRelease) {
  EXPECT_THAT(verify("release=99.1.0", kProgram).out,
              HasSubstr("\nNo model of 99.1.0: compared with that of "));
}

TEST(Verify, TellsARealRunThatTheScenarioDoesNotExpect) {
  Folder folder;
  const std::string file =
      folder.write("a.yaml",
                   "zero3sim: 1\nname: a\n"
                   "model: {children: {A: \"Linear(8, 8, bias=False)\", B: \"Linear(8, 8, "
                   "bias=False)\", C: \"Linear(8, 8, bias=False)\"}}\n"
                   "input_requires_grad: true\n"
                   "deepspeed_config: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: "
                   "100, stage3_max_reuse_distance: 0, stage3_param_persistence_threshold: 0}}\n"
                   "program: [{repeat: 2, do: [train]}, train: A C]\n"
                   "expect: [{deepspeed: all, outcome: completes}]\n");
  const Outcome outcome = verify("", file + " --ranks 2");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the scenario's own expectation: expected completes, "));
}

TEST(Verify, IsInconclusiveWhereTheProbeDies) {
  const Outcome outcome = verify("dies", kProgram);
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.out, HasSubstr("inconclusive: the probe died: exit status 9\nfake: out of memory"));
}

// Every rank's trace up to its first all-gather, where it would have waited for ever.
TEST(Verify, HasAnExitCodeOfItsOwnForARunThatWaitsForEver) {
  Folder folder;
  const std::vector<std::string> real = lines_of(read_file("tests/sim/verify/v0.15.2.skipped-layer.jsonl"));
  std::string trace = real.front() + "\n";
  for (const std::string rank : {"0", "1"}) {
    for (const std::string& line : real) {
      if (!line.starts_with("{\"rank\":" + rank)) continue;
      trace += line + "\n";
      if (line.ends_with("\"reason\":\"needed\"}")) break;
    }
    trace +=
        "{\"rank\":" + rank + ",\"statement\":0,\"event\":\"timeout\",\"text\":\"not done after 30 s\"}\n";
  }
  trace += "{\"event\":\"end\"}\n";
  const Outcome outcome = shell("FAKE_PROBE_TRACE=" + shell_quoted(folder.write("hangs.jsonl", trace)) +
                                " zero3sim verify --python tests/sim/verify/fake_probe " + kProgram);
  EXPECT_EQ(outcome.exit_code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("differs at step 1 (t:ABC) on rank 0: hang\n"));
}

TEST(Verify, NeedsRealDeepSpeed) {
  const Outcome missing = verify("no-module", kProgram);
  EXPECT_EQ(missing.exit_code, 5);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.errors, HasSubstr("tests/sim/verify/fake_probe -m pip install ./probe"));
  EXPECT_EQ(verify("unavailable", kProgram).exit_code, 5);
  EXPECT_EQ(verify("newer-probe", kProgram).exit_code, 5);
}

TEST(Verify, RefusesBadInput) {
  const auto refused = [](const std::string& words) {
    const Outcome outcome = verify("", words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.out, "");
    return outcome.errors;
  };
  EXPECT_THAT(refused(""), HasSubstr("nothing to verify"));
  EXPECT_THAT(refused("--program 't:A xyz'"), HasSubstr("program:1:5: error: "));
  EXPECT_THAT(refused("scenarios --gas 2"), HasSubstr("--gas requires --program"));
  EXPECT_THAT(refused("--program t:A --ranks 0"), HasSubstr("--ranks"));
  EXPECT_THAT(refused("nowhere.yaml"), HasSubstr("nowhere.yaml"));
  EXPECT_EQ(shell("zero3sim verify --program t:A").exit_code, 2);
}

TEST(Verify, WritesJUnitWholeOrNotAtAll) {
  Folder folder;
  const std::string file = folder.path("verify.xml");
  EXPECT_EQ(verify("release=0.15.3", std::string(kProgram) + " --junit " + file).exit_code, 1);
  EXPECT_THAT(folder.names(), ElementsAre("verify.xml"));
  const std::string junit = read_file(file);
  EXPECT_THAT(junit,
              StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"zero3sim verify\" "
                         "tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\">\n"
                         "  <testcase classname=\"zero3sim.verify.deepspeed-0.15.3\" "
                         "name=\"t:ABC t:ABC t:AC, ranks 2\">\n    <failure type=\"not as expected\" "));
  EXPECT_THAT(junit, HasSubstr("  &gt; release B.weight (cleaned)"));
  Folder empty;
  const Outcome unwritten =
      verify("", std::string(kProgram) + " --junit " + empty.path("no/such/folder.xml"));
  EXPECT_EQ(unwritten.exit_code, 2);
  EXPECT_THAT(unwritten.errors, HasSubstr("cannot write the JUnit file "));
  EXPECT_THAT(empty.names(), IsEmpty());
}

TEST(Verify, PrintsJson) {
  const Outcome outcome = verify("", std::string(kProgram) + " --format json");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("{\n  \"zero3sim\": 1,\n  \"deepspeed\": \"0.15.2\",\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\"outcome\": \"agrees\""));
}

}  // namespace
}  // namespace zero3::cli_test
