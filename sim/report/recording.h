// Keeps every event of one rank's run, free of the run's own objects: what stories and trace files are made from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/observer.h"
#include "sim/simulate.h"

namespace zero3::sim {

struct RecordedEvent {
  EventKind kind = EventKind::kFetch;
  Reason reason = Reason::kNone;
  size_t statement = 0;     // index in the rank's program
  int module_id = -1;       // ds_id; -1: no module
  std::string module = {};  // its qualified name
  std::vector<int> ds_ids = {};
  int64_t step = -1;
  int64_t value = 0;
  int64_t limit = 0;
  bool forward = true;
  std::string text = {};

  bool operator==(const RecordedEvent&) const = default;
};

struct Recording {
  int rank = 0;
  bool gathers_singly = false;  // prefetched params are launched one by one, not coalesced
  std::vector<RecordedEvent> events = {};
  std::vector<std::string> statements = {};      // texts of those that ran
  std::map<int, std::string> param_names = {};   // by ds_id
  std::map<int, std::string> module_names = {};  // by id, of those that an event named
  std::vector<std::string> statuses = {};        // after each statement: "A.weight=N B.weight=I"

  const std::string& param_name(int ds_id) const { return param_names.at(ds_id); }
  // "fc2 (module 3)"; "module 3" where no event named it.
  std::string module_text(int64_t id) const;
};

class Recorder final : public RankWatcher {
 public:
  // Writes into `recording`, which must outlive the run.
  Recorder(Recording& recording, const Behaviour& behaviour) : recording_(recording), behaviour_(behaviour) {}

  void on_event(const Event& event) override;
  void after_statement(const Statement& statement, const Failure* failure, const RankRunner& runner) override;

 private:
  Recording& recording_;
  Behaviour behaviour_;
};

}  // namespace zero3::sim
