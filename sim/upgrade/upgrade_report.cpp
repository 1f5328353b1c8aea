// What `zero3sim upgrade` says, as text, JSON (docs/upgrade.md) and JUnit's XML.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/outcome/outcome_json.h"
#include "sim/outcome/outcome_text.h"
#include "sim/report/markup.h"
#include "sim/upgrade/upgrade.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kUpgradeVersion = 1;

std::string_view change_word(const ProgramUpgrade& program, bool strict) {
  if (program.worse(strict)) return "worse";
  if (!program.comparable()) return "not comparable";
  if (program.better()) return "better";
  return "no worse";
}

std::string cost_text(const char* what, double from, double to) {
  return from == to ? "" : fmt::format("  {}: {:.6g} -> {:.6g}\n", what, from, to);
}

std::string costs_text(const ProgramUpgrade& program) {
  if (!program.costs_known) return "";
  const StepCost& from = program.cost_from;
  const StepCost& to = program.cost_to;
  return cost_text("all-gathers a step", from.all_gathers, to.all_gathers) +
         cost_text("elements gathered a step", from.gathered_numel, to.gathered_numel) +
         cost_text("live elements at the peak", static_cast<double>(from.peak_live_numel),
                   static_cast<double>(to.peak_live_numel));
}

// All that changes, a line each; "" if nothing does.
std::string changes_text(const ProgramUpgrade& program) {
  std::string text;
  for (const Outcome* outcome : {&program.from, &program.to}) {
    if (outcome->end == End::kLacking) text += fmt::format("  {}\n", outcome->lacking);
  }
  for (const std::string& lost : program.lost) text += fmt::format("  lost: {}\n", lost);
  for (const std::string& gained : program.gained) text += fmt::format("  gained: {}\n", gained);
  if (!program.gained.empty() && program.to.failure)
    text += fmt::format("  {}\n", hanging(program.to.failure->text, 2));
  if (program.text_changed) {
    text += fmt::format("  text was: {}\n  text is:  {}\n", hanging(program.from.failure->text, 12),
                        hanging(program.to.failure->text, 12));
  }
  return text + costs_text(program);
}

std::string program_text(const ProgramUpgrade& program, bool strict) {
  const std::string changes = changes_text(program);
  if (changes.empty() && !program.partial) return "";
  std::string text =
      fmt::format("{}, {} rank{}{}: {}\n{}", program.name, program.ranks, program.ranks == 1 ? "" : "s",
                  program.partial ? ", recorded in part" : "", change_word(program, strict), changes);
  if (program.worse(strict)) text += fmt::format("  reproduce: {}\n", program.reproduce_to);
  return text;
}

ordered_json cost_json(const ProgramUpgrade& program, const StepCost& cost) {
  if (!program.costs_known) return nullptr;
  return {{"all_gathers_per_step", cost.all_gathers},
          {"gathered_numel_per_step", cost.gathered_numel},
          {"peak_live_numel", cost.peak_live_numel}};
}

ordered_json program_json(const ProgramUpgrade& program, bool strict) {
  return {{"name", program.name},
          {"file", program.path},
          {"ranks", program.ranks},
          {"seed", program.seed},
          {"partial", program.partial},
          {"change", change_word(program, strict)},
          {"gained", program.gained},
          {"lost", program.lost},
          {"text_changed", program.text_changed},
          {"cost_from", cost_json(program, program.cost_from)},
          {"cost_to", cost_json(program, program.cost_to)},
          {"from", outcome_json(program.from)},
          {"to", outcome_json(program.to)},
          {"reproduce_from", program.reproduce_from},
          {"reproduce_to", program.reproduce_to}};
}

size_t count_of(const Upgrade& upgrade, std::string_view word) {
  return static_cast<size_t>(std::ranges::count_if(upgrade.programs, [&](const ProgramUpgrade& program) {
    return change_word(program, upgrade.strict) == word;
  }));
}

std::string summary(const Upgrade& upgrade) {
  const size_t unchanged = static_cast<size_t>(std::ranges::count_if(
      upgrade.programs, [](const ProgramUpgrade& program) { return changes_text(program).empty(); }));
  std::string text = fmt::format("{} worse, {} better, {} no worse", count_of(upgrade, "worse"),
                                 count_of(upgrade, "better"), count_of(upgrade, "no worse"));
  if (unchanged > 0) text += fmt::format(" ({} unchanged)", unchanged);
  const size_t lacking = count_of(upgrade, "not comparable");
  return text + (lacking == 0 ? "" : fmt::format(", {} not comparable", lacking)) + "\n";
}

std::string junit_case(const ProgramUpgrade& program, const Upgrade& upgrade) {
  const std::string begin =
      fmt::format("  <testcase classname=\"zero3sim.upgrade.{}-to-{}\" name=\"{}, ranks {}\"",
                  upgrade.from.text(), upgrade.to.text(), markup_text(program.name), program.ranks);
  if (program.worse(upgrade.strict)) {
    return fmt::format("{}>\n    <failure type=\"{}\" message=\"worse\">{}</failure>\n  </testcase>\n", begin,
                       name(Verdict::kNotAsExpected), markup_text(program_text(program, upgrade.strict)));
  }
  if (program.comparable()) return begin + "/>\n";
  const Outcome& lacking = program.to.end == End::kLacking ? program.to : program.from;
  return fmt::format("{}>\n    <skipped message=\"{}\"/>\n  </testcase>\n", begin,
                     markup_text(lacking.lacking));
}

}  // namespace

std::string text_report(const Upgrade& upgrade) {
  std::string text = fmt::format("DeepSpeed {} -> {}\n", upgrade.from.text(), upgrade.to.text());
  for (const ProgramUpgrade& program : upgrade.programs) text += program_text(program, upgrade.strict);
  return text + summary(upgrade);
}

std::string json_report(const Upgrade& upgrade) {
  ordered_json out = {{"zero3sim", kUpgradeVersion},
                      {"from", upgrade.from.text()},
                      {"to", upgrade.to.text()},
                      {"strict", upgrade.strict},
                      {"verdict", name(upgrade.verdict())}};
  out["programs"] = ordered_json::array();
  for (const ProgramUpgrade& program : upgrade.programs)
    out["programs"].push_back(program_json(program, upgrade.strict));
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string junit_report(const Upgrade& upgrade) {
  std::string cases;
  for (const ProgramUpgrade& program : upgrade.programs) cases += junit_case(program, upgrade);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"zero3sim upgrade\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n{}"
      "</testsuite>\n",
      upgrade.programs.size(), count_of(upgrade, "worse"), count_of(upgrade, "not comparable"), cases);
}

}  // namespace zero3::sim
