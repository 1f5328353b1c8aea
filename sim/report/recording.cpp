#include "sim/report/recording.h"

#include <fmt/format.h>

#include "coordinator/model.h"
#include "sim/observed_log.h"

namespace zero3::sim {

std::string Recording::module_text(int64_t id) const {
  const auto found = module_names.find(static_cast<int>(id));
  return found == module_names.end() ? fmt::format("module {}", id)
                                     : fmt::format("{} (module {})", found->second, id);
}

void Recorder::on_event(const Event& event) {
  RecordedEvent recorded{
      event.kind,  event.reason,  recording_.statements.size(), -1, "", {}, event.step, event.value,
      event.limit, event.forward, std::string(event.text)};
  if (event.module != nullptr) {
    recorded.module_id = event.module->ds_id;
    recorded.module = event.module->name;
    recording_.module_names.insert_or_assign(event.module->ds_id, event.module->name);
  }
  for (const Param* param : event.params) {
    recorded.ds_ids.push_back(param->ds_id);
    recording_.param_names.try_emplace(param->ds_id, param->name);
  }
  recording_.events.push_back(std::move(recorded));
}

void Recorder::after_statement(const Statement& statement, const Failure* failure, const RankRunner& runner) {
  recording_.statements.push_back(statement.text);
  recording_.statuses.push_back(statuses_text(runner.parameters(), Naming::kNested, behaviour_));
  if (failure == nullptr) return;
  for (const Param* param : failure->params) recording_.param_names.try_emplace(param->ds_id, param->name);
}

}  // namespace zero3::sim
