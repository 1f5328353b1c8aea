// deepspeedai/DeepSpeed#7170, Qwen3-VL#126, ms-swift#9655, 2025-03-24: batches with and without images, then silence.
// The vision tower runs on some ranks only: they issue other all-gathers. #5006's idle experts are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/release.h"
#include "sim/short_form.h"
#include "sim/simulate.h"
#include "tests/support/test_engine.h"

namespace zero3::test {
namespace {

sim::SimulationResult simulate_ranks(std::string_view of_release, const std::string& rank0,
                                     const std::string& rank1) {
  sim::ShortFormOptions two_ranks;
  two_ranks.ranks = 2;
  sim::Experiment experiment = sim::parse_short_form(rank0, two_ranks);
  experiment.rank_programs[1] = sim::parse_program(rank1, experiment.model);
  return sim::simulate(experiment, {.release = release(of_release), .set_order_seed = 0, .watch = nullptr});
}

// Emb is A, the tower B with another size of layer behind it: A, B, C against A, C.
TEST(DeepSpeed7170, RanksThatDivergeNeverMeetAgain) {
  for (const char* release : {"0.5.10", "0.15.2", "0.19.8"}) {
    const sim::SimulationResult result = simulate_ranks(release, "t:ABC", "t:AC");
    EXPECT_TRUE(result.failed()) << release;
    EXPECT_FALSE(result.corruptions.empty()) << "equal sizes: the gathers of B and C pair up, silently";
  }
}

TEST(DeepSpeed7170, DummyCallOnTheOtherRankIsClean) {
  const sim::SimulationResult result = simulate_ranks("0.15.2", "t:ABC t:ABC t:ABC", "t:ABC t:ABC t:ABC");
  EXPECT_FALSE(result.failed());
  EXPECT_TRUE(result.corruptions.empty());
}

}  // namespace
}  // namespace zero3::test
