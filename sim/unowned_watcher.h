// simulate() destroys its watchers: this one hands on all that it is told to a watcher that outlives the run.
#pragma once

#include "sim/rank_run.h"

namespace zero3::sim {

class UnownedWatcher final : public RankWatcher {
 public:
  explicit UnownedWatcher(RankWatcher& watcher) : watcher_(watcher) {}

  void on_event(const Event& event) override { watcher_.on_event(event); }
  void after_statement(const Statement& statement, const Failure* failure,
                       const RankRunner& runner) override {
    watcher_.after_statement(statement, failure, runner);
  }

 private:
  RankWatcher& watcher_;
};

}  // namespace zero3::sim
