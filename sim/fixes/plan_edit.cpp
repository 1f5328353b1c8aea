#include "sim/fixes/plan_edit.h"

#include <algorithm>
#include <map>
#include <utility>

namespace zero3::sim {
namespace {

bool same_call(const PlannedCall& a, const PlannedCall& b) {
  return a.module == b.module && a.read == b.read && a.is_region() == b.is_region() && a.stops == b.stops;
}

bool collect(const Calls& part, const Calls& whole, std::vector<size_t>& path, std::vector<LeftOut>& found) {
  LeftOut here{path, {}};
  const size_t place = found.size();
  found.push_back({});
  size_t next = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (next == part.size() || !same_call(part[next], whole[i])) {
      here.calls.push_back(i);
      continue;
    }
    path.push_back(i);
    if (!collect(part[next].children, whole[i].children, path, found)) return false;
    path.pop_back();
    ++next;
  }
  found[place] = std::move(here);
  return next == part.size();
}

std::map<int, size_t> counted(const Calls& calls) {
  std::map<int, size_t> counts;
  for (const PlannedCall& call : calls) ++counts[call.module];
  return counts;
}

void discard(PlannedCall& call) {
  call.discard_output = true;
  if (!call.flow) return;
  // Of a recorded call: backward comes to nothing of it.
  call.flow->inputs.reached = call.flow->inputs.contained_reached = 0;
  call.flow->outputs.reached = call.flow->outputs.contained_reached = 0;
  for (PlannedCall& child : call.children) discard(child);
}

}  // namespace

std::optional<std::vector<LeftOut>> left_out(const Calls& part, const Calls& whole) {
  std::vector<LeftOut> found;
  std::vector<size_t> path;
  if (!collect(part, whole, path, found)) return std::nullopt;
  std::erase_if(found, [](const LeftOut& one) { return one.calls.empty(); });
  return found;
}

std::optional<Calls> united(const Calls& a, const Calls& b) {
  // Lengths of the longest common part of what begins at each pair of calls.
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          same_call(a[i], b[j]) ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  Calls whole;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && same_call(a[i], b[j])) {
      std::optional<Calls> children = united(a[i].children, b[j].children);
      if (!children) return std::nullopt;
      whole.push_back(a[i]);
      whole.back().children = std::move(*children);
      ++i;
      ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      whole.push_back(a[i++]);
    } else {
      whole.push_back(b[j++]);
    }
  }
  const std::map<int, size_t> of_a = counted(a);
  const std::map<int, size_t> of_b = counted(b);
  for (const auto& [module, count] : counted(whole)) {
    const auto in_a = of_a.find(module);
    const auto in_b = of_b.find(module);
    if (count > std::max(in_a == of_a.end() ? 0 : in_a->second, in_b == of_b.end() ? 0 : in_b->second))
      return std::nullopt;
  }
  return whole;
}

Calls with_discarded(const Calls& part, const Calls& whole) {
  Calls made;
  size_t next = 0;
  for (const PlannedCall& call : whole) {
    if (next < part.size() && same_call(part[next], call)) {
      made.push_back(part[next]);
      made.back().children = with_discarded(part[next].children, call.children);
      ++next;
    } else {
      made.push_back(call);
      discard(made.back());
    }
  }
  return made;
}

const Calls& list_at(const Calls& whole, const std::vector<size_t>& path) {
  const Calls* list = &whole;
  for (const size_t index : path) list = &(*list)[index].children;
  return *list;
}

Calls& list_at(Calls& whole, const std::vector<size_t>& path) {
  Calls* list = &whole;
  for (const size_t index : path) list = &(*list)[index].children;
  return *list;
}

}  // namespace zero3::sim
