#include "sim/backends/rank_report.h"

#include <optional>

#include <nlohmann/json.hpp>

NLOHMANN_JSON_NAMESPACE_BEGIN
template <class Value>
struct adl_serializer<std::optional<Value>> {
  static void to_json(json& out, const std::optional<Value>& value) {
    if (value) {
      out = *value;
    } else {
      out = nullptr;
    }
  }
  static void from_json(const json& in, std::optional<Value>& value) {
    if (!in.is_null()) value = in.get<Value>();
  }
};
NLOHMANN_JSON_NAMESPACE_END

namespace zero3::sim {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFailure::NamedParam, ds_id, name, status, ds_numel)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFailure, kind, exception, text, path, params, statement)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Collective, kind, group, number, ds_ids, names, shards, ds_numels,
                                   shard_numel, ints, source_rank, meeting, statement)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, rank, like_rank, failure, collectives)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WaitPoint, collective, issued)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ComparedValue, value, reference)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorReport::Loss, statement, compared)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorReport::UnlikeWeight, name, element, numel, compared)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorReport, library, dtype, optimizer, updates, losses, unlike_weights,
                                   no_reference, files)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRun, result, wait_points, ranks_part, tensors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedEvent, kind, reason, statement, module_id, module, ds_ids, step,
                                   value, limit, forward, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Recording, rank, gathers_singly, events, statements, param_names,
                                   module_names, statuses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Usage, all_gathers, exposed_all_gathers, gathered_numel, peak_live_numel,
                                   optimizer_steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SilentFault, kind, consequence, statement, statements, params,
                                   all_gathers_per_step, numel_per_step, exposed_all_gathers_per_step,
                                   live_numel)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankAudit, rank, usage, faults)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WrongData, collective, ds_id, first, end, of_ds_id)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceUsage, gpu, peak_bytes, driver_peak_bytes, peak_fetch_events,
                                   blocked_fetches)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, run, recording, audit, wrong, device)

std::string to_bytes(const RankReport& report) {
  std::string bytes;
  nlohmann::json::to_msgpack(nlohmann::json(report), bytes);
  return bytes;
}

RankReport rank_report_of(const std::string& bytes) {
  return nlohmann::json::from_msgpack(bytes).get<RankReport>();
}

}  // namespace zero3::sim
