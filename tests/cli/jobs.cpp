#include "tests/cli/jobs.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sim/cli/common.h"

namespace zero3::cli_test {

using nlohmann::json;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + shell_quoted(word);
  return text;
}

std::string without_reproducer(const std::string& text) {
  std::string kept;
  for (const std::string& line : lines_of(text))
    if (line.find("reproduce") == std::string::npos) kept += line + "\n";
  return kept;
}

std::vector<std::string> running(const std::string& release, const std::string& ranks, size_t of_each) {
  std::vector<std::string> files;
  const std::vector<std::string> all = sim::cli::scenario_files({"scenarios"});
  for (size_t i = 0; i < all.size(); i += of_each) {
    const std::string& file = all[i];
    const Outcome outcome =
        shell("zero3sim run " + file + " --format json --deepspeed " + release + " --ranks " + ranks);
    if (outcome.exit_code == 2) continue;
    const json report = json::parse(outcome.out);
    std::vector<json> failures = report.at("other_ranks");
    failures.push_back(report.at("failure"));
    const bool hangs = std::ranges::any_of(
        failures, [](const json& failure) { return !failure.is_null() && failure.at("kind") == "hang"; });
    if (!hangs) files.push_back(file);
  }
  return files;
}

Outcome orphans(const std::string& marker) { return shell("pgrep -fc '[n]o-such-folder/" + marker + "'"); }

}  // namespace zero3::cli_test
