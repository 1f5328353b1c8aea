// Threads that meet in collectives, and those that never do.
#include "sim/backends/rank_exchange.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3::sim {
namespace {

using ::testing::ElementsAre;

// A byte a rank: all-gathers hand all of them round, sums add them.
class Bytes final : public MovedData {
 public:
  Bytes(int rank, int world_size) : rank_(rank), received_(static_cast<size_t>(world_size)) {}

  Buffers begin(const Collective& collective) override {
    if (collective.kind == CollectiveKind::kAllReduce) received_.assign(1, own());
    if (collective.kind == CollectiveKind::kReduceScatter) {
      sent_.assign(received_.size(), own());
      received_.assign(1, std::byte{0});
    }
    if (collective.kind == CollectiveKind::kAllGather) received_[static_cast<size_t>(rank_)] = own();
    return {sent_, received_};
  }
  void reduce(const Collective&, std::span<const std::byte> of_all) override {
    int sum = 0;
    for (const std::byte byte : of_all) sum += static_cast<int>(byte);
    received_.assign(1, static_cast<std::byte>(sum));
  }
  void end(const Collective&, size_t) override {}

  std::vector<int> received() const {
    std::vector<int> numbers;
    for (const std::byte byte : received_) numbers.push_back(static_cast<int>(byte));
    return numbers;
  }

 private:
  std::byte own() const { return static_cast<std::byte>(rank_ + 1); }

  int rank_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

constexpr int kRanks = 3;

// Runs each rank on a thread of its own; what it hands back is whether its collectives completed.
std::vector<bool> on_threads(RankExchange& exchange, const std::function<bool(int rank)>& run) {
  std::vector<char> complete(kRanks);  // not bool: threads write to them
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      complete[static_cast<size_t>(rank)] = run(rank) ? 1 : 0;
      exchange.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {complete.begin(), complete.end()};
}

Collective all_gather(size_t number, int64_t shard_numel = 1) {
  return {.kind = CollectiveKind::kAllGather, .number = number, .shard_numel = shard_numel};
}

TEST(RankExchange, HandsRoundAndSums) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
    RankExchange exchange(kRanks);
    std::vector<Bytes> data;
    for (int rank = 0; rank < kRanks; ++rank) data.emplace_back(rank, kRanks);
    const std::vector<bool> complete = on_threads(exchange, [&](int rank) {
      const Collective collective{.kind = kind, .shard_numel = 1};
      exchange.issue(rank, collective, data[static_cast<size_t>(rank)]);
      return exchange.wait(collective);
    });
    EXPECT_THAT(complete, ElementsAre(true, true, true));
    for (const Bytes& one : data) {
      if (kind == CollectiveKind::kAllGather) {
        EXPECT_THAT(one.received(), ElementsAre(1, 2, 3));
      } else {
        EXPECT_THAT(one.received(), ElementsAre(1 + 2 + 3));
      }
    }
  }
}

// Waits in turn many times: a rank that is slow to wake up is not taken for one that waits.
TEST(RankExchange, DoesNotTakeTheSlowForStuck) {
  RankExchange exchange(kRanks);
  std::vector<Bytes> data;
  for (int rank = 0; rank < kRanks; ++rank) data.emplace_back(rank, kRanks);
  const std::vector<bool> complete = on_threads(exchange, [&](int rank) {
    bool all = true;
    for (size_t number = 0; number < 2000; ++number) {
      exchange.issue(rank, all_gather(number), data[static_cast<size_t>(rank)]);
      all = exchange.wait(all_gather(number)) && all;
    }
    return all;
  });
  EXPECT_THAT(complete, ElementsAre(true, true, true));
}

TEST(RankExchange, TellsThoseWhoWaitForEver) {
  const std::vector<std::function<Collective(int)>> of_rank = {
      [](int rank) { return all_gather(0, rank == 1 ? 2 : 1); },  // another size
      [](int rank) {                                              // another operation
        return rank == 1 ? Collective{.kind = CollectiveKind::kBarrier} : all_gather(0);
      },
  };
  for (const auto& issues : of_rank) {
    RankExchange exchange(kRanks);
    std::vector<Bytes> data;
    for (int rank = 0; rank < kRanks; ++rank) data.emplace_back(rank, kRanks);
    EXPECT_THAT(on_threads(exchange,
                           [&](int rank) {
                             exchange.issue(rank, issues(rank), data[static_cast<size_t>(rank)]);
                             return exchange.wait(issues(rank));
                           }),
                ElementsAre(false, false, false));
  }
}

TEST(RankExchange, TellsThoseWhoWaitForOneThatHasLeft) {
  RankExchange exchange(kRanks);
  std::vector<Bytes> data;
  for (int rank = 0; rank < kRanks; ++rank) data.emplace_back(rank, kRanks);
  EXPECT_THAT(on_threads(exchange,
                         [&](int rank) {
                           if (rank == 2) return true;
                           exchange.issue(rank, all_gather(0), data[static_cast<size_t>(rank)]);
                           return exchange.wait(all_gather(0));
                         }),
              ElementsAre(false, false, true));
}

}  // namespace
}  // namespace zero3::sim
