#include <nlohmann/json.hpp>

#include "sim/fixes/fix_report.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

ordered_json ending(const Outcome& outcome) {
  ordered_json out = {{"outcome", outcome.end == End::kLacking ? "lacking" : cell_word(outcome)}};
  if (outcome.failure) {
    out["rank"] = outcome.failure->rank;
    out["step"] = outcome.failure->statement + 1;
    out["statement"] = outcome.failure->statement_text;
    out["text"] = outcome.failure->text;
  }
  return out;
}

ordered_json measured(const Measure& measure) {
  return {{"all_gathers", measure.all_gathers},
          {"exposed_all_gathers", measure.exposed},
          {"gathered_numel", measure.numel},
          {"peak_live_numel", measure.peak_numel}};
}

ordered_json of(const FixResult& result) {
  const Candidate& candidate = result.candidate;
  ordered_json out = {{"fix", candidate.id},       {"kind", name(candidate.kind)},
                      {"what", candidate.what},    {"in_file", candidate.names},
                      {"cure", name(result.cure)}, {"holds", result.holds()}};
  if (candidate.release) out["deepspeed"] = candidate.release->text();
  if (result.cure == Cure::kDoesNotApply) {
    out["why"] = result.why;
    return out;
  }
  out["programs"] = result.programs;
  if (result.cure == Cure::kNotCured) {
    out["ends"] = ending(result.outcome);
    return out;
  }
  out["counterexample"] = nullptr;
  if (result.counterexample) {
    out["counterexample"] = {{"ranks", result.counterexample->ranks},
                             {"variation", result.counterexample->what}};
    out["counterexample"]["ends"] = ending(result.counterexample->outcome);
  }
  out["more"] = result.more ? measured(*result.more) : ordered_json(nullptr);
  out["silent_faults"] = ordered_json::array();
  for (const SilentFault& fault : result.faults)
    out["silent_faults"].push_back({{"kind", name(fault.kind)}, {"consequence", name(fault.consequence)}});
  return out;
}

ordered_json of(const FoldedFixReport& folded, const std::string& reproduce) {
  const FixReport& report = folded.report;
  ordered_json out = {{"zero3sim", 1}, {"scenario", report.name}, {"releases", ordered_json::array()}};
  for (const Release& release : folded.releases) out["releases"].push_back(release.text());
  out["ranks"] = report.ranks;
  out["seed"] = report.seed;
  out["verdict"] = name(verdict_of(report));
  out["ends"] = ending(report.outcome);
  out["variations"] = report.variations;
  out["possible_variations"] = report.possible_variations;
  out["world_sizes"] = report.world_sizes;
  out["baseline"] = nullptr;
  if (report.baseline) {
    out["baseline"] = {{"program", report.baseline->what},
                       {"per", report.baseline->by_forward ? "forward" : "optimizer step"}};
    out["baseline"].update(measured(report.baseline->measure));
  }
  out["fixes"] = ordered_json::array();
  for (const FixResult& result : report.results) out["fixes"].push_back(of(result));
  const int smallest = report.smallest();
  out["smallest"] = smallest < 0 ? ordered_json(nullptr)
                                 : ordered_json(report.results[static_cast<size_t>(smallest)].candidate.id);
  out["reproduce"] = reproduce;
  return out;
}

}  // namespace

std::string fixes_json(const std::vector<FoldedFixReport>& reports,
                       const std::vector<std::string>& reproduce) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < reports.size(); ++i) out.push_back(of(reports[i], reproduce[i]));
  return (reports.size() == 1 ? out.front() : out)
             .dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace zero3::sim
