#include "sim/rank_run.h"

#include <utility>

namespace zero3::sim {
namespace {

RankFailure copy_out(const Failure& failure, size_t statement) {
  RankFailure copy{failure.kind, failure.exception, failure.text, failure.path, {}, statement};
  for (const Param* param : failure.params) {
    copy.params.push_back({param->ds_id, param->name, param->ds_status, param->ds_numel});
  }
  return copy;
}

}  // namespace

RankRun run_rank(const Experiment& experiment, const Behaviour& behaviour, RankCommunicator& communicator,
                 uint64_t set_order_seed, RankWatcher* watcher, RankTensors* tensors) {
  RankRunner runner(experiment, behaviour, communicator, watcher, set_order_seed, tensors);
  const Program& program = experiment.rank_programs[static_cast<size_t>(communicator.rank())];
  RankRun run{.result = {.rank = communicator.rank(), .like_rank = communicator.rank()}};
  for (size_t i = 0; i < program.size() && !run.result.failure; ++i) {
    communicator.begin_statement(i);
    const Raised raised = runner.run(program[i], i);
    if (watcher != nullptr) watcher->after_statement(program[i], raised.get(), runner);
    if (raised) run.result.failure = copy_out(*raised, i);
  }
  if (tensors != nullptr) run.tensors = tensors->end_run();
  run.result.collectives = communicator.sequence();
  run.wait_points = communicator.wait_points();
  run.ranks_part = communicator.ranks_part();
  return run;
}

}  // namespace zero3::sim
