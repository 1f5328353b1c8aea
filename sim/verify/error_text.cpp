#include "sim/verify/error_text.h"

#include <regex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zero3::sim {
namespace {

// An error with each tensor as empty or not, and its descriptions of params as a set.
struct ComparableError {
  std::string skeleton;  // "%" for each param
  std::multiset<std::string> params;

  bool operator==(const ComparableError&) const = default;
};

// A param's description with the module ids of its active_sub_modules ascending: a Python set of ints has them in an
// order that depends on what it held before.
std::string ids_ascending(const std::string& param) {
  static const std::regex kIds(R"('active_sub_modules': \{([0-9, ]+)\})");
  static const std::regex kId("[0-9]+");
  std::smatch found;
  if (!std::regex_search(param, found, kIds)) return param;
  const std::string ids = found[1].str();
  std::set<int> sorted;
  for (std::sregex_iterator it(ids.begin(), ids.end(), kId), end; it != end; ++it)
    sorted.insert(std::stoi(it->str()));
  return found.prefix().str() + fmt::format("'active_sub_modules': {{{}}}", fmt::join(sorted, ", ")) +
         found.suffix().str();
}

ComparableError comparable(const std::string& error) {
  static const std::regex kEmpty(R"(tensor\(\[\]([^()]*|\([0-9, ]*\))*\))");
  static const std::regex kFull(R"(tensor\(\[+[^\]][\s\S]*?\](?:,\s+requires_grad=True)?\))");
  static const std::regex kSummary(R"(\{'id': [\s\S]*?('active_sub_modules': (set\(\)|\{[0-9, ]*\})))"
                                   R"((, 'ds_tensor\.shape': torch\.Size\(\[\d+\]\))?\})");
  static const std::regex kMethod(R"(<bound method [\s\S]*?ds_summary of Parameter containing:\n.*?>)");
  std::string text = std::regex_replace(error, kEmpty, "<empty$1>");
  text = without_places(std::regex_replace(text, kFull, "<full>"));
  ComparableError result;
  for (const std::regex& pattern : {kSummary, kMethod}) {
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
      result.params.insert(ids_ascending((*it)[0].str()));
  }
  result.skeleton = std::regex_replace(std::regex_replace(text, kSummary, "%"), kMethod, "%");
  return result;
}

}  // namespace

// A module that lacks a name is told with its file; torch 2 raises another type where it refuses to concatenate
// nothing, names a view otherwise and an option more; numpy 2 shows its ints with their type.
std::string without_places(const std::string& error) {
  static const std::pair<std::regex, const char*> kRules[] = {
      {std::regex(R"(np\.int64\((-?\d+)\))"), "$1"},
      {std::regex(R"( \(/[^)]*\))"), ""},
      {std::regex(R"(\s+At:[\s\S]*)"), ""},
      {std::regex("ValueError: torch.cat"), "RuntimeError: torch.cat"},
      {std::regex("output 0 of AsStridedBackward0"), "output 0 of AsStrided"},
      {std::regex(R"(set_detect_anomaly\(True, check_nan=False\))"), "set_detect_anomaly(True)"},
  };
  std::string text = error;
  for (const auto& [pattern, replacement] : kRules) text = std::regex_replace(text, pattern, replacement);
  return text;
}

bool same_error(const std::string& a, const std::string& b) {
  return a == b || comparable(a) == comparable(b);
}

}  // namespace zero3::sim
