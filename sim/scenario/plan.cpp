#include "sim/scenario/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/scenario/number.h"

namespace zero3::sim {
namespace {

constexpr size_t kMaxItems = 1'000'000;
constexpr size_t kMaxBrackets = 100;
constexpr std::string_view kForm = "for example fc1 act fc2, or block[attn mlp], or layers.*:checkpoint";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ','; }

bool is_path(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '*' || c == '?' || c == '-';
}

std::string module_name(const ScenarioModel& model, int module) {
  const std::string& name = model.module(module).name;
  return module == 0 ? "the model" : fmt::format("'{}'", name);
}

}  // namespace

PlanReader::PlanReader(const YamlFile& file, const ScenarioModel& model, const YamlNode* plans)
    : file_(file), model_(model), plans_(plans) {}

void PlanReader::fail(const Cursor& cursor, size_t at, const std::string& message,
                      const std::string& advice) const {
  file_.fail(file_.place_in(cursor.node, at), message, advice);
}

void PlanReader::spend(const Cursor& cursor, size_t items) {
  items_ += items;
  if (items_ > kMaxItems)
    fail(cursor, 0, fmt::format("the plans of this file call more than {} modules", kMaxItems));
}

Plan PlanReader::own_forward(int from) {
  const ScenarioModel::Extra& extra = model_.extra_of(from);
  if (extra.has_forward) return extra.forward;
  Plan plan;
  for (const int child : model_.callable_children(from)) plan.push_back(PlanItem{.module = child});
  return plan;
}

Plan PlanReader::read(const YamlNode& node, int from) {
  if (node.is_null()) return own_forward(from);
  if (!node.is_list()) return read_text(node, from);
  Plan plan;
  for (const YamlNode& item : node.items) {
    Plan part = read_text(item, from);
    plan.insert(plan.end(), part.begin(), part.end());
  }
  return plan;
}

Plan PlanReader::read_text(const YamlNode& node, int from) {
  Cursor cursor{node, file_.text(node, "a plan", std::string(kForm)), 0};
  Plan plan = read_items(cursor, from, 0);
  if (!cursor.done()) fail(cursor, cursor.at, "']' without its '['");
  return plan;
}

Plan PlanReader::read_items(Cursor& cursor, int from, size_t depth) {
  if (depth > kMaxBrackets)
    fail(cursor, cursor.at, fmt::format("more than {} nested brackets", kMaxBrackets));
  Plan plan;
  while (true) {
    while (!cursor.done() && is_space(cursor.front())) ++cursor.at;
    if (cursor.done() || cursor.front() == ']') return plan;
    Plan part = read_item(cursor, from, depth);
    spend(cursor, part.size());
    plan.insert(plan.end(), part.begin(), part.end());
  }
}

Plan PlanReader::read_item(Cursor& cursor, int from, size_t depth) {
  const size_t start = cursor.at;
  while (!cursor.done() && is_path(cursor.front())) ++cursor.at;
  if (cursor.at == start) {
    fail(cursor, start, fmt::format("unexpected '{}' in a plan", cursor.text.substr(start, 1)),
         std::string(kForm));
  }
  Plan items = resolve(cursor, cursor.text.substr(start, cursor.at - start), start, from);
  read_suffixes(cursor, items);
  if (cursor.done() || cursor.front() != '[') return items;
  const size_t bracket = cursor.at;
  // What stands in the brackets is read for each module that the path names: names are seen from there.
  for (PlanItem& item : items) {
    if (item.module < 0)
      fail(cursor, bracket, "a draw takes no brackets", "say what they call under the model's forward:");
    cursor.at = bracket + 1;
    item.children = read_items(cursor, item.module, depth + 1);
    item.own_children = true;
    if (cursor.done()) fail(cursor, bracket, "'[' without its ']'");
    ++cursor.at;
  }
  if (items.empty()) fail(cursor, bracket, "'[' after what calls nothing");
  return items;
}

void PlanReader::read_suffixes(Cursor& cursor, Plan& items) {
  static const std::vector<std::string> kKnown = {"checkpoint", "reentrant", "whole_recompute",
                                                  "detach",     "discard",   "per_rank"};
  while (!cursor.done() && cursor.front() == ':') {
    const size_t start = ++cursor.at;
    while (!cursor.done() && is_path(cursor.front())) ++cursor.at;
    const std::string_view word = cursor.text.substr(start, cursor.at - start);
    for (PlanItem& item : items) {
      if (word == "checkpoint") item.checkpointing = Checkpointing::kNonReentrant;
      if (word == "reentrant") item.checkpointing = Checkpointing::kReentrant;
      if (word == "whole_recompute") item.checkpointing = Checkpointing::kWholeRecompute;
      if (word == "detach") item.detach_input = true;
      if (word == "discard") item.discard_output = true;
      if (word == "per_rank") item.per_rank = true;
      if (word == "per_rank" && item.module >= 0)
        fail(cursor, start, "':per_rank' is for draws", "for example experts.?2:per_rank");
    }
    if (std::ranges::find(kKnown, word) == kKnown.end()) {
      fail(cursor, start, fmt::format("unknown suffix ':{}'", word), suggestion(word, kKnown));
    }
  }
}

Plan PlanReader::resolve(const Cursor& cursor, std::string_view path, size_t start, int from) {
  if (model_.find(from, path) < 0) {
    if (plans_ != nullptr && plans_->find(path) != nullptr) return named_plan(cursor, path, start, from);
    if (path == "all") return own_forward(from);
    if (path.find('?') != std::string_view::npos) return draw(cursor, path, start, from);
  }
  const bool every = path == "*" || path.ends_with(".*");
  const std::string_view parent_path = path == "*" ? std::string_view{} : path.substr(0, path.size() - 2);
  const int module = every && path == "*" ? from : find(cursor, every ? parent_path : path, start, from);
  if (!every && !model_.extra_of(module).container) return {PlanItem{.module = module}};
  Plan plan;
  for (const int child : model_.callable_children(module)) plan.push_back(PlanItem{.module = child});
  if (plan.empty())
    fail(cursor, start, fmt::format("{} has no children to call", module_name(model_, module)));
  return plan;
}

// "experts.?2": two of them, as the seed has it.
Plan PlanReader::draw(const Cursor& cursor, std::string_view path, size_t start, int from) {
  const size_t mark = path.find('?');
  const Number number = parse_number(path.substr(mark + 1));
  const bool form = mark == 0 || path[mark - 1] == '.';
  if (!form || number.kind != Number::Kind::kWhole || number.value < 1) {
    fail(cursor, start + mark, "how many to draw is missing",
         "for example experts.?2: two of the children of experts");
  }
  const int module = mark == 0 ? from : find(cursor, path.substr(0, mark - 1), start, from);
  PlanItem item;
  item.candidates = model_.callable_children(module);
  if (number.value > static_cast<int64_t>(item.candidates.size())) {
    fail(cursor, start + mark,
         fmt::format("{} has {} children to draw from", module_name(model_, module), item.candidates.size()),
         "draw fewer");
  }
  item.drawn = static_cast<int>(number.value);
  return {item};
}

Plan PlanReader::named_plan(const Cursor& cursor, std::string_view name, size_t start, int from) {
  if (std::ranges::find(expanding_, name) != expanding_.end()) {
    fail(cursor, start, fmt::format("the plan '{}' uses itself", name));
  }
  expanding_.emplace_back(name);
  Plan plan = read(*plans_->find(name), from);
  expanding_.pop_back();
  return plan;
}

int PlanReader::find(const Cursor& cursor, std::string_view path, size_t start, int from) const {
  const int module = model_.find(from, path);
  if (module >= 0) return module;
  // The longest part that exists, to say where the rest went wrong.
  size_t end = path.rfind('.');
  while (end != std::string_view::npos && model_.find(from, path.substr(0, end)) < 0) {
    end = end == 0 ? std::string_view::npos : path.rfind('.', end - 1);
  }
  const bool partly = end != std::string_view::npos;
  const int parent = partly ? model_.find(from, path.substr(0, end)) : from;
  const std::string_view missing = partly ? path.substr(end + 1) : path;
  std::vector<std::string> known = model_.extra_of(parent).child_names;
  if (!partly && plans_ != nullptr) {
    for (const YamlKey& key : plans_->keys) known.push_back(key.text);
  }
  fail(cursor, partly ? start + end + 1 : start,
       fmt::format("{} has no module '{}'", module_name(model_, parent), missing),
       suggestion(missing, known));
}

}  // namespace zero3::sim
