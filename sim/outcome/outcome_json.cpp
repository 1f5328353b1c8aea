#include "sim/outcome/outcome_json.h"

#include <utility>

#include "coordinator/param.h"
#include "sim/scenario/expectation.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

ordered_json failure_json(const EndingFailure& failure) {
  ordered_json params = ordered_json::array();
  for (const RankFailure::NamedParam& param : failure.params) {
    params.push_back({{"name", param.name},
                      {"ds_id", param.ds_id},
                      {"status", status_text(param.status)},
                      {"ds_numel", param.ds_numel}});
  }
  return {{"kind", name(failure.kind)},
          {"text", failure.text},
          {"rank", failure.rank},
          {"step", failure.statement + 1},
          {"statement", failure.statement_text},
          {"path", failure.path},
          {"params", std::move(params)}};
}

ordered_json audit_json(const RankAudit& audit) {
  ordered_json out = {{"rank", audit.rank},
                      {"all_gathers", audit.usage.all_gathers},
                      {"exposed_all_gathers", audit.usage.exposed_all_gathers},
                      {"gathered_numel", audit.usage.gathered_numel},
                      {"peak_live_numel", audit.usage.peak_live_numel},
                      {"optimizer_steps", audit.usage.optimizer_steps},
                      {"silent_faults", ordered_json::array()}};
  for (const SilentFault& fault : audit.faults) out["silent_faults"].push_back(fault_json(fault));
  return out;
}

// The enumerator of this name; `last`: the last one.
template <class Enum>
Enum named(const std::string& word, Enum last, const std::string& what) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  }
  throw NotAnOutcome(what + ": '" + word + "' is none");
}

template <class Value>
Value member(const ordered_json& json, const char* key) {
  try {
    return json.at(key).get<Value>();
  } catch (const nlohmann::json::exception&) {
    throw NotAnOutcome(std::string(key) + " is missing or of another type");
  }
}

size_t index_of_step(const ordered_json& json) {
  const auto step = member<int64_t>(json, "step");
  if (step < 1) throw NotAnOutcome("step: counted from 1");
  return static_cast<size_t>(step - 1);
}

EndingFailure failure_of(const ordered_json& json) {
  EndingFailure failure{
      .kind = named(member<std::string>(json, "kind"), FailureKind::kInternal, "kind of failure"),
      .text = member<std::string>(json, "text"),
      .rank = member<int>(json, "rank"),
      .statement = index_of_step(json),
      .statement_text = member<std::string>(json, "statement"),
      .path = member<std::vector<std::string>>(json, "path")};
  for (const ordered_json& param : member<std::vector<ordered_json>>(json, "params")) {
    const auto status = member<std::string>(param, "status");
    const std::optional<ZeroParamStatus> known = parse_status(status);
    if (!known) throw NotAnOutcome("status: '" + status + "' is none");
    failure.params.push_back({member<int>(param, "ds_id"), member<std::string>(param, "name"), *known,
                              member<int64_t>(param, "ds_numel")});
  }
  return failure;
}

SilentFault fault_of(const ordered_json& json) {
  return {.kind = named(member<std::string>(json, "kind"), SilentFaultKind::kPrefetchThrownAway,
                        "kind of silent fault"),
          .consequence =
              named(member<std::string>(json, "consequence"), Consequence::kWrongResult, "consequence"),
          .statement = index_of_step(json),
          .statements = member<size_t>(json, "steps"),
          .params = member<std::vector<std::string>>(json, "params"),
          .all_gathers_per_step = member<double>(json, "all_gathers_per_step"),
          .numel_per_step = member<double>(json, "numel_per_step"),
          .exposed_all_gathers_per_step = member<double>(json, "exposed_all_gathers_per_step"),
          .live_numel = member<int64_t>(json, "live_numel")};
}

RankAudit audit_of(const ordered_json& json) {
  RankAudit audit{.rank = member<int>(json, "rank"),
                  .usage = {.all_gathers = member<int64_t>(json, "all_gathers"),
                            .exposed_all_gathers = member<int64_t>(json, "exposed_all_gathers"),
                            .gathered_numel = member<int64_t>(json, "gathered_numel"),
                            .peak_live_numel = member<int64_t>(json, "peak_live_numel"),
                            .optimizer_steps = member<int64_t>(json, "optimizer_steps")},
                  .faults = {}};
  for (const ordered_json& fault : member<std::vector<ordered_json>>(json, "silent_faults"))
    audit.faults.push_back(fault_of(fault));
  return audit;
}

}  // namespace

ordered_json fault_json(const SilentFault& fault) {
  return {{"kind", name(fault.kind)},
          {"consequence", name(fault.consequence)},
          {"step", fault.statement + 1},
          {"steps", fault.statements},
          {"params", fault.params},
          {"all_gathers_per_step", fault.all_gathers_per_step},
          {"numel_per_step", fault.numel_per_step},
          {"exposed_all_gathers_per_step", fault.exposed_all_gathers_per_step},
          {"live_numel", fault.live_numel}};
}

ordered_json outcome_json(const Outcome& outcome) {
  ordered_json out = {{"end", name(outcome.end)}};
  if (outcome.failure) out["failure"] = failure_json(*outcome.failure);
  if (!outcome.wrong_data.empty()) out["wrong_data"] = outcome.wrong_data;
  if (!outcome.lacking.empty()) out["lacking"] = outcome.lacking;
  if (!outcome.printed.empty()) out["printed"] = outcome.printed;
  if (outcome.audits.empty()) return out;
  out["usage"] = ordered_json::array();
  for (const RankAudit& audit : outcome.audits) out["usage"].push_back(audit_json(audit));
  return out;
}

Outcome outcome_of_json(const ordered_json& json) {
  if (!json.is_object()) throw NotAnOutcome("an outcome is an object");
  Outcome outcome{.end = named(member<std::string>(json, "end"), End::kLacking, "end")};
  if (json.contains("failure")) outcome.failure = failure_of(json.at("failure"));
  if (json.contains("wrong_data")) outcome.wrong_data = member<std::vector<std::string>>(json, "wrong_data");
  if (json.contains("lacking")) outcome.lacking = member<std::string>(json, "lacking");
  if (json.contains("printed")) outcome.printed = member<std::vector<std::string>>(json, "printed");
  if (json.contains("usage")) {
    for (const ordered_json& audit : member<std::vector<ordered_json>>(json, "usage"))
      outcome.audits.push_back(audit_of(audit));
  }
  return outcome;
}

}  // namespace zero3::sim
