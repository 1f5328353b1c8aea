#include "sim/cli/common.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/release_selection.h"

namespace zero3::sim::cli {

std::vector<Release> chosen_releases(const std::string& text) {
  if (text.empty()) return {known_releases().back()};
  return parse_releases(text, "--deepspeed");
}

Release chosen_release(const std::string& text, const std::string& source) {
  const std::vector<Release> releases =
      text.empty() ? std::vector{known_releases().back()} : parse_releases(text, source);
  if (releases.size() == 1) return releases.front();
  throw BadInput(source, text, Place{1, 1}, "one release is needed here", "for example 0.15.2");
}

std::vector<std::string> scenario_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".yaml") found.push_back(entry.path().string());
    }
    if (found.empty())
      throw BadInput(fmt::format("{}: no scenario below this folder", path), "scenarios end in .yaml");
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string formatted(const std::vector<RunReport>& reports, Format format) {
  if (format == Format::kJson)
    return reports.size() == 1 ? json_report(reports.front()) : json_report(reports);
  std::string text;
  for (const RunReport& report : reports) text += (text.empty() ? "" : "\n") + text_report(report);
  return text;
}

Verdict overall(const std::vector<RunReport>& reports) {
  Verdict verdict = Verdict::kAsExpected;
  for (const RunReport& report : reports) verdict = worse(verdict, report.verdict);
  return verdict;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw BadInput("cannot write to standard output");
  }
}

}  // namespace zero3::sim::cli
