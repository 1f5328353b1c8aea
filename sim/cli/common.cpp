#include "sim/cli/common.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/release_selection.h"
#include "sim/whole_file.h"

namespace zero3::sim::cli {
namespace {

// A folder of scenarios that are wrong on purpose; named itself, it is taken.
constexpr const char* kCanaries = "canary";

}  // namespace

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
    const std::vector<std::string> found = scenarios_below(path);
    if (found.empty())
      throw BadInput(fmt::format("{}: no scenario below this folder", path), "scenarios end in .yaml");
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::vector<std::string> scenarios_below(const std::string& folder) {
  std::vector<std::string> found;
  auto entry = std::filesystem::recursive_directory_iterator(folder);
  for (; entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && entry->path().filename() == kCanaries) entry.disable_recursion_pending();
    if (entry->path().extension() == ".yaml") found.push_back(entry->path().string());
  }
  std::ranges::sort(found);
  return found;
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

Ending ending_of(const Outcome& outcome) {
  Ending ending;
  ending.printed = outcome.printed;
  if (!outcome.audits.empty()) ending.silent = outcome.silent_kinds();
  if (!outcome.failure) return ending;
  const EndingFailure& failure = *outcome.failure;
  ending.failure = failure.kind;
  ending.text = failure.text;
  ending.rank = failure.rank;
  ending.statement = failure.statement;
  ending.statement_text = failure.statement_text;
  for (const RankFailure::NamedParam& param : failure.params)
    ending.params.push_back({param.name, param.status});
  return ending;
}

std::string short_form_words(const TryArguments& arguments) {
  const ShortFormOptions& options = arguments.options;
  const ShortFormOptions usual;
  std::string words;
  const auto add = [&words](const char* name, int64_t value, int64_t usual_value) {
    if (value != usual_value) words += fmt::format(" {} {}", name, value);
  };
  if (!arguments.model.empty()) words += " --model " + shell_word(arguments.model);
  add("--gas", options.gradient_accumulation_steps, usual.gradient_accumulation_steps);
  add("--reuse", options.max_reuse_distance_numel, usual.max_reuse_distance_numel);
  add("--prefetch", options.prefetch_bucket_numel, usual.prefetch_bucket_numel);
  add("--live", options.max_live_numel, usual.max_live_numel);
  add("--persist", options.param_persistence_threshold_numel, usual.param_persistence_threshold_numel);
  add("--input-grad", options.input_requires_grad ? 1 : 0, 1);
  if (!options.dup.empty()) words += " --dup " + options.dup;
  if (!options.with_optimizer) words += " --no-optimizer";
  if (options.log_trace_cache_warnings) words += " --log-trace-cache-warnings";
  return words;
}

void tell(const std::string& text, const std::string& out, const std::string& what) {
  if (out.empty()) return print(text);
  write_whole_file(out, text, what);
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw BadInput("cannot write to standard output");
  }
}

}  // namespace zero3::sim::cli
