// Traces as they come: several in one stream, cut ones, newer ones, and lines that are none.
#include "sim/verify/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/bad_input.h"
#include "sim/scenario/yaml_reader.h"
#include "tests/sim/verify/real_traces.h"

namespace zero3::sim {
namespace {

using ::testing::HasSubstr;

const std::string kHeader =
    R"({"format":"zero3sim-trace","version":1,"scenario":"t:A","deepspeed":"0.15.2","ranks":1,"seed":0})"
    "\n";
const std::string kStatement = R"({"rank":0,"statement":0,"event":"statement","text":"t:A"})"
                               "\n";
const std::string kEnd = R"({"event":"end"})"
                         "\n";

std::string refusal(const std::string& text) {
  try {
    read_traces(text, "a.jsonl");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "taken";
}

TEST(TraceReader, ReadsARealTrace) {
  const std::string text = read_text_file(kRealTracePath);
  const std::vector<RunTrace> runs = read_traces(text + text, kRealTracePath);
  ASSERT_EQ(runs.size(), 2U);
  const RunTrace& run = runs[1];
  EXPECT_TRUE(run.whole);
  EXPECT_EQ(run.deepspeed, "0.15.2");
  EXPECT_EQ(run.command, "python -m zero3probe serve");
  ASSERT_EQ(run.by_rank.size(), 2U);
  EXPECT_EQ(run.by_rank[1].statements.size(), 3U);
  EXPECT_EQ(run.by_rank[1].statements[0].statuses->substr(0, 10), "A.weight=N");
  EXPECT_EQ(run.by_rank[1].statements[2].failure->exception, "RuntimeError");
  EXPECT_EQ(run.by_rank[1].statements[0].events[0],
            (TraceEvent{.event = "fetch", .module = "root", .module_id = 0, .step = 0, .pass = "forward"}));
}

TEST(TraceReader, ReadsUpToACut) {
  const std::string text = read_text_file(kRealTracePath);
  for (size_t length = kHeader.size() * 3; length < text.size(); length += 97) {
    const std::vector<RunTrace> runs = read_traces(text.substr(0, length), "a.jsonl");
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_FALSE(runs[0].whole);
  }
}

TEST(TraceReader, PassesOverWhatItDoesNotKnow) {
  const std::string strange = R"({"rank":0,"statement":0,"event":"teleport","who":[1]})"
                              "\n";
  const std::vector<RunTrace> runs = read_traces(kHeader + kStatement + strange + kEnd, "a.jsonl");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_TRUE(runs[0].by_rank[0].statements[0].events.empty());
}

TEST(TraceReader, TellsHowARankEnded) {
  const std::string died =
      R"~({"rank":0,"statement":0,"event":"died","text":"killed by signal 9 (SIGKILL)"})~"
      "\n";
  const std::string refused = R"({"event":"refused","text":"no GPUs"})"
                              "\n";
  const RunTrace run = read_traces(kHeader + kStatement + died + kEnd, "a.jsonl").at(0);
  EXPECT_EQ(run.by_rank[0].stop->kind, TraceStop::Kind::kDied);
  EXPECT_EQ(run.by_rank[0].stop->text, "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(read_traces(kHeader + refused + kEnd, "a.jsonl").at(0).refused, "no GPUs");
}

TEST(TraceReader, RefusesWithTheLine) {
  EXPECT_THAT(refusal(kHeader + "Traceback\n"), HasSubstr("a.jsonl:2:1: error: not a line of a trace: "));
  EXPECT_THAT(refusal(kStatement), HasSubstr("the first line of a trace is needed"));
  EXPECT_THAT(refusal(kHeader + kStatement + kStatement), HasSubstr("a.jsonl:3:1: error: "));
  EXPECT_THAT(refusal(kHeader + "[]\n"), HasSubstr("an object is needed"));
  EXPECT_THAT(refusal(R"({"format":"zero3sim-trace","version":2})"
                      "\n"),
              HasSubstr("a trace of version 2; this zero3sim reads up to 1"));
}

}  // namespace
}  // namespace zero3::sim
