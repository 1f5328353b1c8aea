// What is made of the reports of ranks that ran in processes of their own. Here they run one after the other, and their
// data goes from hand to hand: what MPI would do, without it.
#include "sim/backends/real_ranks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/backend_unavailable.h"
#include "sim/backends/marked_data.h"
#include "sim/backends/rank_report.h"
#include "sim/backends/sim_communicator.h"
#include "sim/backends/standing.h"
#include "sim/short_form.h"
#include "sim/watched_run.h"

namespace zero3::sim {
namespace {

using ::testing::HasSubstr;

Experiment program(const std::string& tokens, int ranks) {
  ShortFormOptions options;
  options.ranks = ranks;
  return parse_short_form(tokens, options);
}

const Release kRelease = *Release::parse("0.15.2");

// Every rank as it would be if all others did the same.
std::vector<RankReport> reports_of(const Experiment& experiment) {
  const Behaviour behaviour = behaviour_of(kRelease);
  const auto ranks = static_cast<int>(experiment.rank_programs.size());
  std::vector<RankReport> reports;
  for (int rank = 0; rank < ranks; ++rank) {
    SimCommunicator communicator(rank, ranks, behaviour);
    RecordingAuditor watcher(rank, experiment.settings, behaviour);
    RankReport report{.run = run_rank(experiment, behaviour, communicator, 0, &watcher)};
    report.recording = watcher.recording();
    report.audit = watcher.audit();
    reports.push_back(rank_report_of(to_bytes(report)));
  }
  return reports;
}

TEST(RealRanks, ComeToWhatVirtualRanksComeTo) {
  const Experiment experiment = program("t:ABC t:AC", 3);
  const WatchedRun expected = simulate_watched(experiment, kRelease, 0);
  const WatchedRun run = conclude(experiment, reports_of(experiment));
  EXPECT_EQ(run.audits, expected.audits);
  ASSERT_EQ(run.recordings.size(), 1U);
  EXPECT_EQ(run.recordings[0].events, expected.recordings[0].events);
  EXPECT_EQ(run.recordings[0].param_names, expected.recordings[0].param_names);
  EXPECT_EQ(run.result.first_failed_rank, 0);
  ASSERT_EQ(run.result.ranks.size(), 3U);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(run.result.ranks[rank].rank, static_cast<int>(rank));
    EXPECT_EQ(run.result.ranks[rank].like_rank, 0);
    EXPECT_EQ(run.result.ranks[rank].failure->text, expected.result.ranks[rank].failure->text);
    EXPECT_EQ(run.result.ranks[rank].failure->params, expected.result.ranks[rank].failure->params);
  }
}

TEST(RealRanks, OfOneProgramDoTheSame) {
  const Experiment experiment = program("t:ABC t:AC", 2);
  std::vector<RankReport> reports = reports_of(experiment);
  reports[1].recording.events.back().step += 1;
  EXPECT_THROW(conclude(experiment, std::move(reports)), BackendUnavailable);
}

TEST(RealRanks, DoNotGiveUpWhereTheOthersCome) {
  const Experiment experiment = program("t:ABC", 2);
  std::vector<RankReport> reports = reports_of(experiment);
  for (RankReport& report : reports)
    report.run.result.failure = RankFailure{FailureKind::kHang, "Hang", "waits in something", {}, {}, 0};
  EXPECT_THROW(conclude(experiment, std::move(reports)), BackendUnavailable);
}

// Two ranks put another param's gradient where the third has its own: what that one gets is wrong once, by both.
TEST(RealRanks, TakeGradientsThatSeveralMixedIn) {
  ShortFormOptions options;
  options.ranks = 3;
  Experiment experiment = parse_short_form("t:AC", options);
  experiment.rank_programs[1] = parse_short_form("t:AB", options).rank_programs[1];
  const Release newest = known_releases().back();
  const WatchedRun expected = simulate_watched(experiment, newest, 0);
  ASSERT_FALSE(expected.result.mix_ups.empty());
  ASSERT_TRUE(expected.result.mix_ups.back().of_gradients());
  std::vector<RankReport> reports;
  for (int rank = 0; rank < 3; ++rank) {
    const Behaviour behaviour = behaviour_of(newest);
    SimCommunicator communicator(rank, 3, behaviour);
    RecordingAuditor watcher(rank, experiment.settings, behaviour);
    RankReport report{.run = run_rank(experiment, behaviour, communicator, 0, &watcher)};
    report.recording = watcher.recording();
    report.audit = watcher.audit();
    reports.push_back(std::move(report));
  }
  for (const MixUp& mix_up : expected.result.mix_ups) {
    for (const MixedPiece& piece : mix_up.pieces) {
      for (const int rank : piece.ranks) {
        RankReport& report = reports[static_cast<size_t>(rank)];
        const auto& issued = report.run.result.collectives;
        const auto found = std::ranges::find_if(issued, [&](const Collective& one) {
          return one.group == mix_up.where.group && one.number == mix_up.where.number;
        });
        // 64 elements on 3 ranks: the last shard has 20, and 2 of padding
        const int64_t end = mix_up.of_gradients() && rank == 2 ? 20 : piece.end;
        const WrongData wrong{static_cast<size_t>(found - issued.begin()), piece.ds_id, piece.first, end,
                              mix_up.of_gradients() ? -1 : piece.of_ds_id};
        if (std::ranges::find(report.wrong, wrong) == report.wrong.end()) report.wrong.push_back(wrong);
      }
    }
  }
  EXPECT_EQ(conclude(experiment, std::move(reports)).result.corruptions, expected.result.corruptions);
}

TEST(RealRanks, HoldTheDataThatTheirCollectivesSay) {
  const Experiment experiment = program("t:ABC", 2);
  std::vector<RankReport> reports = reports_of(experiment);
  reports[1].wrong = {{.collective = 0, .ds_id = 0, .first = 0, .end = 4, .of_ds_id = 1}};
  EXPECT_THROW(conclude(experiment, std::move(reports)), BackendUnavailable);
}

Collective all_gather(std::vector<int> ds_ids, std::vector<int64_t> ds_numels, int world_size) {
  Collective collective{.ds_ids = std::move(ds_ids), .ds_numels = std::move(ds_numels)};
  for (const int64_t numel : collective.ds_numels) {
    collective.names.push_back("param");
    collective.shards.push_back((numel + world_size - 1) / world_size);
    collective.shard_numel += collective.shards.back();
  }
  return collective;
}

// Both ranks' parts of an all-gather, put together as each of them sees it.
void exchange(std::vector<MarkedData>& data, const std::vector<Collective>& collectives) {
  std::vector<Buffers> buffers;
  for (size_t rank = 0; rank < data.size(); ++rank) buffers.push_back(data[rank].begin(collectives[rank]));
  const size_t part = buffers[0].receive.size() / data.size();
  for (size_t from = 0; from < data.size(); ++from) {
    for (size_t to = 0; to < data.size(); ++to)
      std::memcpy(buffers[to].receive.data() + from * part, buffers[from].receive.data() + from * part, part);
  }
  for (size_t rank = 0; rank < data.size(); ++rank) data[rank].end(collectives[rank], 5);
}

TEST(MarkedData, ArrivesWhole) {
  std::vector<MarkedData> data;
  data.emplace_back(0, 2);
  data.emplace_back(1, 2);
  // 7 elements: the second rank's shard has one of padding
  exchange(data, {all_gather({3, 4}, {8, 7}, 2), all_gather({3, 4}, {8, 7}, 2)});
  EXPECT_TRUE(data[0].wrong().empty());
  EXPECT_TRUE(data[1].wrong().empty());
}

TEST(MarkedData, SaysWhoseDataCameInstead) {
  std::vector<MarkedData> data;
  data.emplace_back(0, 2);
  data.emplace_back(1, 2);
  exchange(data, {all_gather({3}, {8}, 2), all_gather({4}, {8}, 2)});
  // each rank keeps its own shard, and has taken the other's for the rest
  EXPECT_EQ(data[0].wrong(),
            (std::vector<WrongData>{{.collective = 5, .ds_id = 3, .first = 4, .end = 8, .of_ds_id = 4}}));
  EXPECT_EQ(data[1].wrong(),
            (std::vector<WrongData>{{.collective = 5, .ds_id = 4, .first = 0, .end = 4, .of_ds_id = 3}}));
}

TEST(Standing, OfAllIsThatOfEach) {
  const Standing standing{.next = "run"};
  EXPECT_EQ(agreed_on({standing, standing}), standing);
  EXPECT_EQ(standing_of(to_text({"run", "file:1:1: error: \"x\"\n", Verdict::kBadInput})),
            (Standing{"run", "file:1:1: error: \"x\"\n", Verdict::kBadInput}));
}

TEST(Standing, NamesTheRankThatHasAnError) {
  const Standing fine{.next = "run"};
  const Standing wrong{"end", "error: no such file", Verdict::kBadInput};
  EXPECT_EQ(agreed_on({fine, fine, wrong}).error, "rank 2: error: no such file");
  EXPECT_EQ(agreed_on({fine, fine, wrong}).verdict, Verdict::kBadInput);
  EXPECT_EQ(agreed_on({wrong, wrong}).error, "error: no such file");
}

TEST(Standing, RefusesOtherBinariesAndPrograms) {
  const Standing mixed =
      agreed_on({{.next = "zero3sim 0.1.0"}, {.next = "zero3sim 0.1.0"}, {.next = "zero3sim 0.2.0"}});
  EXPECT_THAT(mixed.error, HasSubstr("error: rank 2 is not about to do what rank 0 is"));
  EXPECT_THAT(mixed.error, HasSubstr("rank 2: zero3sim 0.2.0"));
  EXPECT_EQ(mixed.verdict, Verdict::kBadInput);
  EXPECT_NE(run_text(program("t:AB", 2), "0.15.2", 0), run_text(program("t:AC", 2), "0.15.2", 0));
  EXPECT_NE(run_text(program("t:AB", 2), "0.15.2", 0), run_text(program("t:AB", 2), "0.15.2", 1));
  EXPECT_EQ(run_text(program("t:AB", 2), "0.15.2", 0), run_text(program("t:AB", 2), "0.15.2", 0));
}

}  // namespace
}  // namespace zero3::sim
