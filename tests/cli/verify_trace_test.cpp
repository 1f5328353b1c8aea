// zero3sim verify --trace: traces that real DeepSpeed left behind, whole, cut, wrong and of something else.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRun = "tests/golden/runs/llama-checkpointed.v0.15.2.jsonl";
constexpr const char* kTrace = "tests/golden/runs/llama-checkpointed.v0.19.8.trace.jsonl";

Outcome verify(const std::string& trace, const std::string& words) {
  return shell("zero3sim verify --trace " + shell_quoted(trace) + " " + words);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

// The first lines of a file, and half of the next.
std::string cut_after(const std::string& path, size_t lines) {
  const std::string text = read_file(path);
  size_t end = 0;
  for (size_t i = 0; i < lines; ++i) end = text.find('\n', end) + 1;
  return text.substr(0, (end + text.find('\n', end)) / 2);
}

TEST(VerifyTrace, NeedsNoPython) {
  const Outcome outcome = verify(kTrace, kRun);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.errors;
  EXPECT_THAT(outcome.out, StartsWith("DeepSpeed 0.19.8 (torch 2.15.0, Python 3.11.2)\n"
                                      "train_hf.py, 1 rank: agrees (9 statements, "));
  EXPECT_EQ(outcome.errors, "");
  const Outcome json = verify(kTrace, std::string(kRun) + " --format json");
  EXPECT_THAT(json.out, HasSubstr("\"model\": \"0.19.8\""));
  EXPECT_THAT(json.out, HasSubstr("\"outcome\": \"agrees\""));
}

TEST(VerifyTrace, TakesTheRunFileOfAProgramOnSeveralRanks) {
  Folder folder;
  const std::string run = folder.path("run.jsonl");
  ASSERT_EQ(shell("zero3sim unroll --program 't:ABC t:ABC t:AC' --ranks 2 -o " + run).exit_code, 0);
  const Outcome outcome = verify("tests/sim/verify/v0.15.2.skipped-layer.jsonl", run);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr("t:ABC t:ABC t:AC, 2 ranks: agrees (6 statements, 127 events)\n"));
}

TEST(VerifyTrace, ShowsWhereTheModelAndTheTracePart) {
  Folder folder;
  const std::string text = read_file(kTrace);
  const std::string trace =
      folder.write("other.jsonl", replaced(text, R"("event":"wait")", R"("event":"release")"));
  const std::string junit = folder.path("verify.xml");
  const Outcome outcome = verify(trace, std::string(kRun) + " --junit " + junit);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("differs at step 1 (forward 1) on rank 0: event\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  repeat: zero3sim verify --trace "));
  EXPECT_THAT(read_file(junit), HasSubstr("<failure type=\"not as expected\""));
}

TEST(VerifyTrace, ComparesUpToTheCut) {
  Folder folder;
  const std::string trace = folder.write("trace.jsonl", cut_after(kTrace, 300));
  const Outcome outcome = verify(trace, kRun);
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.out, HasSubstr("inconclusive: rank 0: the real run's trace was cut there\n"));
  // A killed run: the trace is ahead of the run file, which was cut too.
  for (const size_t lines : {2, 4}) {
    const Outcome killed = verify(trace, folder.write("run.jsonl", cut_after(kRun, lines)));
    EXPECT_EQ(killed.exit_code, 4) << killed.out << killed.errors;
    EXPECT_THAT(killed.out, HasSubstr(lines == 2 ? "inconclusive: the run was cut; 0 statements and 0 events"
                                                 : "inconclusive: the run was cut; 2 statements and "));
  }
}

TEST(VerifyTrace, RefusesWhatIsNoTraceOfTheRun) {
  Folder folder;
  const std::string text = read_file(kTrace);
  const auto refused = [](const std::string& trace, const std::string& words) {
    const Outcome outcome = verify(trace, words);
    EXPECT_EQ(outcome.exit_code, 2) << trace << " " << words << "\n" << outcome.out;
    EXPECT_EQ(outcome.out, "");
    return outcome.errors;
  };
  const auto written = [&](const std::string& content) { return folder.write("t.jsonl", content); };
  EXPECT_THAT(refused("nowhere.jsonl", kRun), HasSubstr("nowhere.jsonl"));
  EXPECT_THAT(refused(written(""), kRun), HasSubstr("t.jsonl: no trace in this file"));
  EXPECT_THAT(
      refused(kRun, kRun),
      StartsWith(std::string(kRun) + ":1:1: error: not a line of a trace: the first line of a trace"));
  EXPECT_THAT(refused(written(replaced(text, "\"version\":1", "\"version\":2")), kRun),
              HasSubstr("t.jsonl:1:1: error: a trace of version 2; this zero3sim reads up to 1"));
  EXPECT_THAT(refused(written(replaced(text, "\"event\":\"wait\"", "\"event\":7")), kRun),
              HasSubstr("error: not a line of a trace: "));
  EXPECT_THAT(refused(written(replaced(text, "\"ranks\":1", "\"ranks\":2")), kRun),
              HasSubstr("rank 1 of 2 is not in it"));
  EXPECT_THAT(
      refused(written(replaced(text, "\"scenario\":\"train_hf.py\"", "\"scenario\":\"other.py\"")), kRun),
      HasSubstr("a trace of other.py on 1 ranks; " + std::string(kRun) + " is of train_hf.py on 1"));
  EXPECT_THAT(refused(kTrace, "tests/golden/runs/mixtral.v0.15.2.jsonl"),
              HasSubstr("a trace of another model"));
  EXPECT_THAT(refused(written(replaced(text, "\"source\":{", "\"sources\":{")), kRun),
              HasSubstr("a trace of a model, not of real DeepSpeed"));
  EXPECT_THAT(refused(written(text + text), kRun), HasSubstr("holds 1 runs, "));
  EXPECT_THAT(refused(written(replaced(text, "\"deepspeed\":\"0.19.8\"", "\"deepspeed\":\"new\"")), kRun),
              HasSubstr("DeepSpeed new is no known release"));
  EXPECT_THAT(refused(kTrace, ""), HasSubstr("takes one run file or scenario"));
  EXPECT_THAT(refused(kTrace, std::string(kRun) + " --python python3"),
              HasSubstr("--python excludes --trace"));
  EXPECT_THAT(refused(kTrace, kTrace), HasSubstr(kTrace));
}

}  // namespace
}  // namespace zero3::cli_test
