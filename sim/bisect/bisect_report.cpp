// What `zero3sim bisect` says, as text and as JSON (docs/bisect.md).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/bisect/bisect.h"
#include "sim/outcome/outcome_json.h"
#include "sim/outcome/outcome_text.h"
#include "sim/release_selection.h"
#include "sim/report/words.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kBisectVersion = 1;

std::string flags_text(const Suspect& suspect) {
  std::string text;
  for (size_t i = 0; i < suspect.changes.size(); ++i) {
    text += fmt::format("{}{} = {} (was {})", i == 0 ? "" : ", ", suspect.changes[i].flag,
                        flag_value_text(suspect.changes[i].value), flag_value_text(suspect.undone[i].value));
  }
  return text;
}

std::string trials_text(const Suspect& suspect, const ChangePoint& point) {
  std::vector<std::string> trials;
  if (suspect.undoing_restores)
    trials.push_back(fmt::format("undone, {} ends as {}", point.after.text(), point.before.text()));
  if (suspect.applying_brings)
    trials.push_back(fmt::format("applied, {} ends as {}", point.before.text(), point.after.text()));
  return fmt::format("{}", fmt::join(trials, "; "));
}

std::string point_text(const ChangePoint& point) {
  std::string text = fmt::format("  {} -> {}: {} -> {}\n", point.before.text(), point.after.text(),
                                 cell_word(point.was), cell_word(point.is));
  if (point.is.failure) text += fmt::format("    {}\n", hanging(point.is.failure->text, 4));
  for (const Suspect& suspect : point.deciding) {
    text += fmt::format("    {}: {}\n      {}\n", suspect.changes.front().source, flags_text(suspect),
                        trials_text(suspect, point));
  }
  if (point.deciding.empty()) {
    text += fmt::format("    no flag and no pull request of the {} that changed there decides it alone\n",
                        point.rows);
  }
  return text;
}

ordered_json suspect_json(const Suspect& suspect) {
  ordered_json flags = ordered_json::array();
  for (size_t i = 0; i < suspect.changes.size(); ++i) {
    flags.push_back({{"flag", suspect.changes[i].flag},
                     {"value", flag_value_text(suspect.changes[i].value)},
                     {"was", flag_value_text(suspect.undone[i].value)}});
  }
  const auto word = [](const std::optional<Outcome>& outcome) {
    return outcome ? ordered_json(cell_word(*outcome)) : ordered_json(nullptr);
  };
  return {{"source", suspect.changes.front().source},
          {"flags", flags},
          {"undone", word(suspect.without)},
          {"undoing_restores", suspect.undoing_restores},
          {"applied", word(suspect.with)},
          {"applying_brings", suspect.applying_brings}};
}

ordered_json point_json(const ChangePoint& point) {
  ordered_json deciding = ordered_json::array();
  for (const Suspect& suspect : point.deciding) deciding.push_back(suspect_json(suspect));
  return {{"before", point.before.text()}, {"after", point.after.text()}, {"was", outcome_json(point.was)},
          {"is", outcome_json(point.is)},  {"flags_changed", point.rows}, {"deciding", deciding}};
}

}  // namespace

std::string text_report(const Bisection& bisection, const TestedProgram& program) {
  std::string text =
      fmt::format("{}, {} rank{}: {} on {}, {} on {}\n", program.name, program.ranks(),
                  program.ranks() == 1 ? "" : "s", cell_word(bisection.good_outcome), bisection.good.text(),
                  cell_word(bisection.bad_outcome), bisection.bad.text());
  const ChangePoint& first = bisection.points[bisection.first];
  text += fmt::format("  {}: {}", bisection.good < bisection.bad ? "first bad" : "last bad",
                      bisection.first_bad().text());
  const std::vector<std::string> sources = first.sources();
  text += sources.empty() ? "\n" : fmt::format(", by {}\n", fmt::join(sources, ", "));
  if (bisection.points.size() > 1)
    text += fmt::format("  it changes {} times between them:\n", bisection.points.size());
  for (const ChangePoint& point : bisection.points) text += point_text(point);
  if (!bisection.lacking.empty()) text += fmt::format("  cannot run it: {}\n", fold(bisection.lacking));
  return text + fmt::format("  reproduce: {}\n", program.reproduce(bisection.first_bad()));
}

std::string json_report(const Bisection& bisection, const TestedProgram& program) {
  ordered_json points = ordered_json::array();
  for (const ChangePoint& point : bisection.points) points.push_back(point_json(point));
  ordered_json lacking = ordered_json::array();
  for (const Release& release : bisection.lacking) lacking.push_back(release.text());
  const ordered_json out = {
      {"zero3sim", kBisectVersion},
      {"name", program.name},
      {"file", program.path},
      {"ranks", program.ranks()},
      {"seed", program.seed},
      {"good", {{"deepspeed", bisection.good.text()}, {"outcome", outcome_json(bisection.good_outcome)}}},
      {"bad", {{"deepspeed", bisection.bad.text()}, {"outcome", outcome_json(bisection.bad_outcome)}}},
      {"first_bad", bisection.first_bad().text()},
      {"sources", bisection.points[bisection.first].sources()},
      {"changes", points},
      {"lacking", lacking},
      {"reproduce", program.reproduce(bisection.first_bad())}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace zero3::sim
