#include "sim/report/named_ids.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace zero3::sim {
namespace {

constexpr size_t kMaxNamed = 8;

// What stands before an id, or before the first of a set of ids.
constexpr auto kBefore =
    std::to_array<std::string_view>({"module ", "module id: ", "active_sub_modules': {"});

// Takes the number off the text's front; -1: there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

std::vector<std::pair<int, std::string>> module_ids_in(std::string_view text, const Recording& recording) {
  std::vector<std::pair<int, std::string>> found;
  const auto add = [&](int id) {
    const auto name = recording.module_names.find(id);
    if (name == recording.module_names.end()) return;
    const std::pair<int, std::string> named(id, name->second);
    if (std::ranges::find(found, named) == found.end()) found.push_back(named);
  };
  for (size_t at = 0; at < text.size(); ++at) {
    for (const std::string_view before : kBefore) {
      if (!text.substr(at).starts_with(before)) continue;
      std::string_view rest = text.substr(at + before.size());
      for (int id = take_number(rest); id >= 0; id = take_number(rest)) {
        add(id);
        if (before.back() != '{' || !rest.starts_with(", ")) break;
        rest.remove_prefix(2);
      }
    }
  }
  return found;
}

std::string module_names_in(std::string_view text, const Recording& recording) {
  std::string names;
  size_t named = 0;
  const auto found = module_ids_in(text, recording);
  for (const auto& [id, name] : found) {
    if (++named > kMaxNamed) return fmt::format("{} and {} more", names, found.size() - kMaxNamed);
    names += fmt::format("{}module {} = {}", names.empty() ? "" : ", ", id, name);
  }
  return names;
}

}  // namespace zero3::sim
