// What `zero3sim regress` says, as text, JSON (docs/regress.md) and JUnit's XML.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/outcome/outcome_text.h"
#include "sim/regress/regression.h"
#include "sim/release_selection.h"
#include "sim/report/markup.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kRegressionVersion = 1;

std::string counted(size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string where(const Regression& regression) {
  std::string text = fold(regression.releases);
  if (!regression.against.empty()) text += fmt::format(" (the baseline's {})", fold(regression.against));
  return text;
}

std::string regression_text(const Regression& regression) {
  std::string text = fmt::format("{}, {}, on {}: {}\n  - {}\n  + {}\n", regression.program,
                                 counted(static_cast<size_t>(regression.ranks), "rank"), where(regression),
                                 regression.change.what, hanging(regression.change.from, 4),
                                 hanging(regression.change.to, 4));
  if (!regression.reproduce.empty()) text += fmt::format("  reproduce: {}\n", regression.reproduce);
  return text;
}

ordered_json releases_json(const std::vector<Release>& releases) {
  ordered_json out = ordered_json::array();
  for (const Release& release : releases) out.push_back(release.text());
  return out;
}

ordered_json regression_json(const Regression& regression) {
  return {{"program", regression.program},
          {"ranks", regression.ranks},
          {"releases", releases_json(regression.releases)},
          {"against", releases_json(regression.against)},
          {"what", regression.change.what},
          {"from", regression.change.from},
          {"to", regression.change.to},
          {"accepted", regression.accepted},
          {"reproduce", regression.reproduce}};
}

std::string case_name(const Regression& regression) {
  return fmt::format("{}, ranks {}", regression.program, regression.ranks);
}

}  // namespace

std::string text_report(const RegressionReport& report) {
  std::string text = fmt::format("{}: {} on {}\n", report.baseline, counted(report.programs, "program"),
                                 fold(report.releases));
  if (!report.installed.empty())
    text += fmt::format("  real DeepSpeed {} held against its model\n", report.installed);
  for (const Regression& regression : report.regressions) {
    if (!regression.accepted) text += regression_text(regression);
  }
  for (const std::string& name : report.not_run)
    text += fmt::format(
        "{}: recorded, so held against the model of DeepSpeed {} alone: its own script can run on the "
        "real one\n",
        name, report.installed);
  for (const std::string& line : report.undecided) text += line + "\n";
  for (const AcceptedChange& accepted : report.idle) {
    text += fmt::format("accepted, and no difference any more: {}, {}, on {}: {}\n", accepted.program,
                        counted(static_cast<size_t>(accepted.ranks), "rank"), fold(accepted.releases),
                        accepted.change.what);
  }
  text += counted(report.count(false), "difference");
  return text + (report.count(true) > 0 ? fmt::format(", {} accepted\n", report.count(true)) : "\n");
}

std::string json_report(const RegressionReport& report) {
  ordered_json out = {
      {"zero3sim", kRegressionVersion},
      {"baseline", report.baseline},
      {"verdict", name(report.verdict())},
      {"releases", releases_json(report.releases)},
      {"programs", report.names},
      {"installed", report.installed.empty() ? ordered_json(nullptr) : ordered_json(report.installed)},
      {"differences", ordered_json::array()},
      {"undecided", report.undecided},
      {"not_run", report.not_run}};
  for (const Regression& regression : report.regressions)
    out["differences"].push_back(regression_json(regression));
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string junit_report(const RegressionReport& report) {
  std::vector<std::string> names = report.names;
  for (const Regression& regression : report.regressions) {  // and what is not among the programs any more
    if (std::ranges::find(names, case_name(regression)) == names.end())
      names.push_back(case_name(regression));
  }
  size_t failures = 0;
  std::string cases;
  for (const std::string& name_of : names) {
    std::string differences;
    for (const Regression& regression : report.regressions) {
      if (!regression.accepted && case_name(regression) == name_of)
        differences += regression_text(regression);
    }
    cases += fmt::format("  <testcase classname=\"zero3sim.regress\" name=\"{}\"", markup_text(name_of));
    if (differences.empty()) {
      cases += "/>\n";
      continue;
    }
    ++failures;
    cases += fmt::format(
        ">\n    <failure type=\"{}\" message=\"not as the baseline\">{}</failure>\n  </testcase>\n",
        name(Verdict::kNotAsExpected), markup_text(differences));
  }
  for (size_t i = 0; i < report.undecided.size(); ++i) {
    cases += fmt::format(
        "  <testcase classname=\"zero3sim.regress\" name=\"real DeepSpeed, undecided {}\">\n    <error "
        "type=\"{}\" message=\"{}\"/>\n  </testcase>\n",
        i + 1, name(Verdict::kInconclusive), markup_text(report.undecided[i]));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"zero3sim regress\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n{}"
      "</testsuite>\n",
      names.size() + report.undecided.size(), failures, report.undecided.size(), cases);
}

}  // namespace zero3::sim
