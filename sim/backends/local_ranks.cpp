#include "sim/backends/local_ranks.h"

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/backends/rank_exchange.h"
#include "sim/backends/real_ranks.h"

namespace zero3::sim {
namespace {

class LocalCommunicator final : public RankCommunicator {
 public:
  LocalCommunicator(int rank, int world_size, const Behaviour& behaviour, RankExchange& exchange,
                    MovedData& data)
      : RankCommunicator(rank, world_size, behaviour), exchange_(exchange), data_(data) {}

 private:
  Raised start() override {
    exchange_.issue(rank(), sequence().back(), data_);
    ended_.push_back(false);
    return nullptr;
  }

  Raised finish() override {
    const size_t index = wait_points().back().collective;
    const Collective& collective = sequence()[index];
    if (ended_[index]) return nullptr;
    if (!exchange_.wait(collective))
      return raise(FailureKind::kHang, "Hang", fmt::format("waits in {}", collective.text()));
    ended_[index] = true;
    if (moves_data(collective)) data_.end(collective, index);
    return nullptr;
  }

  void receive(std::vector<int64_t>& ints) override {
    ints = exchange_.ints_of_rank0(sequence()[wait_points().back().collective]);
  }

  RankExchange& exchange_;
  MovedData& data_;
  std::vector<bool> ended_;  // by index in the sequence
};

}  // namespace

WatchedRun run_local_ranks(const Experiment& experiment, const Release& release, uint64_t seed,
                           const TensorLibrary& library, const TensorOptions& options) {
  const Behaviour behaviour = behaviour_of(release);
  const auto world_size = static_cast<int>(experiment.rank_programs.size());
  RankExchange exchange(world_size);
  std::vector<RankReport> reports(experiment.rank_programs.size());
  std::vector<std::exception_ptr> errors(reports.size());
  std::vector<std::unique_ptr<RankTensors>> tensors;
  for (int rank = 0; rank < world_size; ++rank)
    tensors.push_back(library.make(experiment, behaviour, rank, options));
  const auto run_one = [&](size_t rank) {
    try {
      LocalCommunicator communicator(static_cast<int>(rank), world_size, behaviour, exchange, *tensors[rank]);
      reports[rank] = run_real_rank(experiment, behaviour, communicator, seed, tensors[rank].get());
    } catch (...) {
      errors[rank] = std::current_exception();
    }
    exchange.leave();
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < reports.size(); ++rank) threads.emplace_back(run_one, rank);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return conclude(experiment, std::move(reports));
}

}  // namespace zero3::sim
