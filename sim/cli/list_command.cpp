// zero3sim list: the scenarios below a folder.
#include <algorithm>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim::cli {
Verdict list_scenarios(const std::vector<std::string>& paths) {
  std::vector<Scenario> scenarios;
  size_t path_width = 0;
  for (const std::string& file : scenario_files(paths)) {
    scenarios.push_back(load_scenario(file));
    path_width = std::max(path_width, file.size());
  }
  std::string text;
  for (const Scenario& scenario : scenarios) {
    text += fmt::format("{:<{}}  {}", scenario.path, path_width, scenario.title);
    text += scenario.source.empty() ? "\n" : fmt::format(" [{}]\n", scenario.source);
  }
  print(text);
  return Verdict::kAsExpected;
}

}  // namespace zero3::sim::cli
