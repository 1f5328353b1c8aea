// Real training, recorded under one release and replayed under another: the model does, event for event, what that
// other release did with the same script. How the files came to be: tests/golden/runs/README.md.
#include <gtest/gtest.h>

#include "sim/run_file/run_file.h"
#include "sim/scenario/yaml_reader.h"
#include "sim/verify/comparison.h"
#include "sim/verify/model_trace.h"
#include "sim/verify/trace_reader.h"

namespace zero3::golden {
namespace {

struct Pair {
  const char* run;    // recorded run
  const char* trace;  // of the script under another release
};

sim::RecordedRun recorded(const std::string& name) {
  const std::string path = "tests/golden/runs/" + name;
  return sim::read_runs(sim::read_text_file(path), path).front();
}

sim::RunTrace real_trace(const std::string& name) {
  const std::string path = "tests/golden/runs/" + name;
  return sim::read_traces(sim::read_text_file(path), path).front();
}

Release release_of(const std::string& text) {
  for (const Release& release : known_releases()) {
    if (release.text() == text) return release;
  }
  ADD_FAILURE() << "unknown release " << text;
  return known_releases().back();
}

sim::Comparison replayed(const Pair& pair) {
  const sim::RecordedRun run = recorded(pair.run);
  const sim::RunTrace real = real_trace(pair.trace);
  const sim::ModelRun model = sim::model_run(run.experiment, run.name, release_of(real.deepspeed), run.seed);
  return sim::compare(model.trace, real);
}

class RecordedTraining : public testing::TestWithParam<Pair> {};

TEST_P(RecordedTraining, ReplaysAsTheOtherReleaseRanIt) {
  const sim::Comparison comparison = replayed(GetParam());
  EXPECT_EQ(comparison.outcome, sim::Comparison::Outcome::kAgrees)
      << GetParam().run << ' ' << GetParam().trace;
  EXPECT_GT(comparison.events, 100U);
  if (!comparison.difference) return;
  const sim::Difference& difference = *comparison.difference;
  for (size_t line = 0; line < difference.model.size() && line <= difference.line; ++line)
    std::printf("model: %s\n", difference.model[line].text.c_str());
  if (difference.line < difference.real.size())
    std::printf("real:  %s\n", difference.real[difference.line].text.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Runs, RecordedTraining,
    testing::Values(Pair{"llama.v0.15.2.jsonl", "llama.v0.19.8.trace.jsonl"},
                    Pair{"mixtral.v0.15.2.jsonl", "mixtral.v0.19.8.trace.jsonl"},
                    Pair{"skipped-layer.v0.15.2.jsonl", "skipped-layer.v0.15.2.trace.jsonl"},
                    Pair{"llama-checkpointed.v0.15.2.jsonl", "llama-checkpointed.v0.15.2.trace.jsonl"},
                    Pair{"llama-checkpointed.v0.15.2.jsonl", "llama-checkpointed.v0.19.8.trace.jsonl"},
                    Pair{"gpt2-reentrant.v0.15.2.jsonl", "gpt2-reentrant.v0.15.2.trace.jsonl"},
                    Pair{"gpt2-reentrant.v0.15.2.jsonl", "gpt2-reentrant.v0.19.8.trace.jsonl"},
                    Pair{"t5.v0.9.5.jsonl", "t5.v0.5.10.trace.jsonl"}));

TEST(RecordedTraining, ACrashIsRecordedUpToIt) {
  const sim::RecordedRun run = recorded("skipped-layer.v0.15.2.jsonl");
  EXPECT_TRUE(run.partial);
  ASSERT_EQ(run.raised.size(), 1U);
  EXPECT_EQ(run.raised[0].exception, "RuntimeError");
  EXPECT_TRUE(run.raised[0].text.starts_with("still have inflight params"));
  EXPECT_EQ(run.raised[0].statement + 1, run.experiment.rank_programs[0].size());
  EXPECT_EQ(sim::write_run(run), sim::read_text_file("tests/golden/runs/skipped-layer.v0.15.2.jsonl"));
}

TEST(RecordedTraining, IsWrittenAsItWasRead) {
  for (const char* name : {"llama-checkpointed.v0.15.2.jsonl", "gpt2-reentrant.v0.15.2.jsonl"})
    EXPECT_EQ(sim::write_run(recorded(name)), sim::read_text_file(std::string("tests/golden/runs/") + name));
}

// A region's calls in its place, as if nothing were checkpointed.
std::vector<sim::PlannedCall> without_regions(const std::vector<sim::PlannedCall>& calls) {
  std::vector<sim::PlannedCall> plain;
  for (sim::PlannedCall call : calls) {
    if (call.stops) continue;
    call.children = without_regions(call.children);
    if (call.is_region()) {
      plain.insert(plain.end(), call.children.begin(), call.children.end());
    } else {
      plain.push_back(std::move(call));
    }
  }
  return plain;
}

TEST(RecordedTraining, ARegionThatIsLeftOutIsSeen) {
  for (const Pair& pair : {Pair{"llama-checkpointed.v0.15.2.jsonl", "llama-checkpointed.v0.15.2.trace.jsonl"},
                           Pair{"gpt2-reentrant.v0.15.2.jsonl", "gpt2-reentrant.v0.15.2.trace.jsonl"}}) {
    sim::RecordedRun run = recorded(pair.run);
    for (sim::Statement& statement : run.experiment.rank_programs[0]) {
      for (sim::Op& op : statement.ops) op.plan = without_regions(op.plan);
    }
    const sim::RunTrace real = real_trace(pair.trace);
    const sim::ModelRun model =
        sim::model_run(run.experiment, run.name, release_of(real.deepspeed), run.seed);
    EXPECT_EQ(sim::compare(model.trace, real).outcome, sim::Comparison::Outcome::kDiffers) << pair.run;
  }
}

// The comparison can fail: a tensor that backward is said not to come to is seen.
TEST(RecordedTraining, OneTensorLessIsSeen) {
  sim::RecordedRun run = recorded("llama.v0.15.2.jsonl");
  sim::Op& forward = run.experiment.rank_programs[0][0].ops[0];
  forward.plan[0].flow->inputs = {};
  forward.plan[0].flow->outputs.contained_reached = 0;
  const sim::RunTrace real = real_trace("llama.v0.19.8.trace.jsonl");
  const sim::ModelRun model = sim::model_run(run.experiment, run.name, release_of(real.deepspeed), run.seed);
  EXPECT_EQ(sim::compare(model.trace, real).outcome, sim::Comparison::Outcome::kDiffers);
}

}  // namespace
}  // namespace zero3::golden
