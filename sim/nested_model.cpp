#include "sim/nested_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxBytes = 16U << 20U;
constexpr int64_t kMaxNumel = int64_t{1} << 46;
constexpr int kMaxOutputs = 64;
constexpr std::string_view kKeyList =
    "model, shared, frozen, leaf, outs, external, uses, ckpt, ckpt_reentrant, ckpt_early_stop, detach, "
    "discard, "
    "no_optimizer";
const std::set<std::string> kKeys = {
    "model",          "shared",          "frozen", "leaf",    "outs",         "external", "uses", "ckpt",
    "ckpt_reentrant", "ckpt_early_stop", "detach", "discard", "no_optimizer", "cfg",      "s",    "ranks"};

class NestedReader {
 public:
  NestedReader(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  NestedModel read() {
    if (text_.size() > kMaxBytes)
      throw BadInput(source_, "", Place{}, fmt::format("larger than {} MiB", kMaxBytes >> 20U));
    check_depth();
    const ordered_json document = parse();
    if (!document.is_object() || !document.contains("model") || !document["model"].is_object()) {
      fail("", "no \"model\" object",
           R"(for example {"model": {"root": {"p": [], "c": ["a"]}, "a": {"p": [64], "c": []}}})");
    }
    for (const auto& [key, value] : document.items()) {
      if (!kKeys.contains(key))
        fail(key, fmt::format("unknown key \"{}\"", key), fmt::format("keys are: {}", kKeyList));
    }
    add_modules(document["model"]);
    connect(document["model"]);
    if (document.contains("shared")) add_shared(document["shared"]);
    if (document.contains("frozen")) freeze(document["frozen"]);
    read_modules_traits(document);
    read_call_habits(document);
    check_cycles();
    qualify_names();
    NestedModel nested{std::move(model_), std::move(habits_), true};
    if (document.contains("no_optimizer")) nested.with_optimizer = !flag(document, "no_optimizer");
    return nested;
  }

 private:
  // Places the caret at the first appearance of the quoted word.
  [[noreturn]] void fail(const std::string& word, const std::string& message,
                         const std::string& advice = "") const {
    const size_t found = word.empty() ? 0 : text_.find("\"" + word + "\"");
    fail_at(found == std::string::npos ? 0 : found, message, advice);
  }

  [[noreturn]] void fail_at(size_t offset, const std::string& message, const std::string& advice = "") const {
    Place place{1, 1};
    for (size_t i = 0; i < offset && i < text_.size(); ++i) {
      place.column = text_[i] == '\n' ? 1 : place.column + 1;
      place.line += text_[i] == '\n' ? 1 : 0;
    }
    throw BadInput(source_, text_, place, message, advice);
  }

  void check_depth() const {
    size_t depth = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '[' || text_[i] == '{') ++depth;
      if ((text_[i] == ']' || text_[i] == '}') && depth > 0) --depth;
      if (depth > kMaxDepth) fail_at(i, fmt::format("more than {} nested brackets", kMaxDepth));
    }
  }

  ordered_json parse() const {
    try {
      return ordered_json::parse(text_);
    } catch (const ordered_json::parse_error& error) {
      fail_at(error.byte > 0 ? error.byte - 1 : 0, "not JSON here", "a model file is one JSON object");
    }
  }

  void add_modules(const ordered_json& modules) {
    if (!modules.contains("root")) fail("model", "no module \"root\"");
    add_module("root", modules["root"]);
    for (const auto& [name, value] : modules.items()) {
      if (name != "root") add_module(name, value);
    }
  }

  void add_module(const std::string& name, const ordered_json& value) {
    if (!value.is_object()) fail(name, fmt::format("module \"{}\" is not an object", name));
    for (const auto& [key, ignored] : value.items()) {
      if (key != "p" && key != "c")
        fail(key, fmt::format("module \"{}\" has an unknown key \"{}\"", name, key), "keys are: p, c");
    }
    ModuleSpec module;
    module.name = name;
    module.type = "Module";
    if (value.contains("p")) {
      if (!value["p"].is_array())
        fail(name, fmt::format("\"p\" of module \"{}\" is not a list of element counts", name));
      for (const ordered_json& numel : value["p"]) {
        if (!numel.is_number_integer() || numel.get<int64_t>() < 0 || numel.get<int64_t>() > kMaxNumel) {
          fail(name,
               fmt::format("an element count of module \"{}\" is not a whole number from 0 to 2^46", name));
        }
        module.params.push_back(
            {.name = fmt::format("p{}", module.params.size()), .shape = {numel.get<int64_t>()}});
      }
    }
    index_[name] = static_cast<int>(model_.modules.size());
    model_.modules.push_back(std::move(module));
  }

  int index_of(const ordered_json& name) const {
    if (!name.is_string()) fail("", "a module's name must be a string");
    const auto found = index_.find(name.get<std::string>());
    if (found == index_.end()) {
      fail(name.get<std::string>(), fmt::format("unknown module \"{}\"", name.get<std::string>()));
    }
    return found->second;
  }

  void connect(const ordered_json& modules) {
    for (const auto& [name, value] : modules.items()) {
      if (!value.contains("c")) continue;
      if (!value["c"].is_array())
        fail(name, fmt::format("\"c\" of module \"{}\" is not a list of names", name));
      auto& children = model_.modules[static_cast<size_t>(index_.at(name))].children;
      for (const ordered_json& child : value["c"]) children.push_back(index_of(child));
    }
  }

  void add_shared(const ordered_json& shared) {
    if (!shared.is_array()) fail("shared", "\"shared\" is not a list of [parent, child]");
    for (const ordered_json& pair : shared) {
      if (!pair.is_array() || pair.size() != 2) fail("shared", "\"shared\" is not a list of [parent, child]");
      model_.modules[static_cast<size_t>(index_of(pair[0]))].children.push_back(index_of(pair[1]));
    }
  }

  void freeze(const ordered_json& frozen) {
    if (!frozen.is_array()) fail("frozen", "\"frozen\" is not a list of params such as \"a.p0\"");
    for (const ordered_json& item : frozen) {
      const ParamRef ref = param_of(item, "frozen");
      model_.modules[static_cast<size_t>(ref.module)].params[static_cast<size_t>(ref.param)].requires_grad =
          false;
    }
  }

  ParamRef param_of(const ordered_json& item, const std::string& key) const {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    const size_t dot = name.find('.');
    const auto module = index_.find(name.substr(0, dot));
    if (dot != std::string::npos && module != index_.end()) {
      const auto& params = model_.modules[static_cast<size_t>(module->second)].params;
      for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].name == name.substr(dot + 1)) return {module->second, static_cast<int>(i)};
      }
    }
    fail(name.empty() ? key : name, fmt::format("unknown param \"{}\"", name), "for example \"a.p0\"");
  }

  bool flag(const ordered_json& document, const std::string& key) const {
    if (!document[key].is_boolean()) fail(key, fmt::format("\"{}\" is not true or false", key));
    return document[key].get<bool>();
  }

  void read_modules_traits(const ordered_json& document) {
    for (const int leaf : module_list(document, "leaf"))
      model_.modules[static_cast<size_t>(leaf)].leaf = true;
    if (document.contains("outs")) {
      if (!document["outs"].is_object()) fail("outs", "\"outs\" is not an object such as {\"A\": 2}");
      for (const auto& [name, count] : document["outs"].items()) {
        if (!count.is_number_integer() || count.get<int64_t>() < 1 || count.get<int64_t>() > kMaxOutputs)
          fail(name, fmt::format("the outputs of module \"{}\" are not from 1 to {}", name, kMaxOutputs));
        model_.modules[static_cast<size_t>(index_of(name))].outputs = count.get<int>();
      }
    }
    add_externals(document, "external", true);
    add_externals(document, "uses", false);
  }

  void add_externals(const ordered_json& document, const std::string& key, bool registered) {
    if (!document.contains(key)) return;
    const std::string form = fmt::format("\"{}\" is not a list of [module, \"a.p0\"]", key);
    if (!document[key].is_array()) fail(key, form);
    for (const ordered_json& pair : document[key]) {
      if (!pair.is_array() || pair.size() != 2) fail(key, form);
      const ParamRef ref = param_of(pair[1], key);
      model_.modules[static_cast<size_t>(index_of(pair[0]))].externals.push_back(
          {ref.module, ref.param, registered});
    }
  }

  void read_call_habits(const ordered_json& document) {
    habits_.resize(model_.modules.size());
    const bool reentrant = document.contains("ckpt_reentrant") && flag(document, "ckpt_reentrant");
    const bool early_stop = !document.contains("ckpt_early_stop") || flag(document, "ckpt_early_stop");
    const Checkpointing how = reentrant    ? Checkpointing::kReentrant
                              : early_stop ? Checkpointing::kNonReentrant
                                           : Checkpointing::kWholeRecompute;
    for (const int module : module_list(document, "ckpt")) habit(module).checkpointing = how;
    for (const int module : module_list(document, "detach")) habit(module).detach_input = true;
    for (const int module : module_list(document, "discard")) habit(module).discard_output = true;
  }

  NestedModel::CallHabit& habit(int module) { return habits_[static_cast<size_t>(module)]; }

  std::vector<int> module_list(const ordered_json& document, const std::string& key) const {
    std::vector<int> modules;
    if (!document.contains(key)) return modules;
    if (!document[key].is_array()) fail(key, fmt::format("\"{}\" is not a list of modules", key));
    for (const ordered_json& name : document[key]) modules.push_back(index_of(name));
    return modules;
  }

  void check_cycles() const {
    std::vector<int> state(model_.modules.size(), 0);  // 1: being walked, 2: done
    for (size_t i = 0; i < state.size(); ++i) walk(i, state);
  }

  void walk(size_t start, std::vector<int>& state) const {
    std::vector<std::pair<size_t, size_t>> open;  // module, next child
    if (state[start] == 0) open.emplace_back(start, 0);
    state[start] = state[start] == 0 ? 1 : state[start];
    while (!open.empty()) {
      auto& [module, next] = open.back();
      const auto& children = model_.modules[module].children;
      if (next == children.size()) {
        state[module] = 2;
        open.pop_back();
        continue;
      }
      const auto child = static_cast<size_t>(children[next++]);
      if (state[child] == 1) {
        const std::string& name = model_.modules[child].name;
        fail(name, fmt::format("module \"{}\" contains itself", name), "a module tree has no cycles");
      }
      if (state[child] == 0) {
        state[child] = 1;
        open.emplace_back(child, 0);
      }
    }
  }

  // Qualified as torch does: by the first path from the root.
  void qualify_names() {
    std::set<size_t> named = {0};
    std::vector<size_t> open = {0};
    while (!open.empty()) {
      const size_t module = open.back();
      open.pop_back();
      const auto& children = model_.modules[module].children;
      for (auto child = children.rbegin(); child != children.rend(); ++child) {
        const auto index = static_cast<size_t>(*child);
        if (!named.insert(index).second) continue;
        if (module != 0)
          model_.modules[index].name = model_.modules[module].name + "." + model_.modules[index].name;
        open.push_back(index);
      }
    }
  }

  const std::string& text_;
  std::string source_;
  ModelSpec model_;
  std::vector<NestedModel::CallHabit> habits_;
  std::map<std::string, int> index_;
};

void apply_habits(std::vector<PlannedCall>& plan, const std::vector<NestedModel::CallHabit>& habits) {
  for (PlannedCall& call : plan) {
    const NestedModel::CallHabit& habit = habits[static_cast<size_t>(call.module)];
    call.checkpointing = habit.checkpointing;
    call.detach_input = habit.detach_input;
    call.discard_output = habit.discard_output;
    apply_habits(call.children, habits);
  }
}

}  // namespace

NestedModel parse_nested_model(const std::string& json, const std::string& source) {
  return NestedReader(json, source).read();
}

Experiment nested_experiment(NestedModel nested, std::string_view program, const ShortFormOptions& options,
                             const std::string& source) {
  Experiment experiment;
  experiment.model = std::move(nested.model);
  experiment.settings = settings_of(options);
  experiment.input_requires_grad = options.input_requires_grad;
  experiment.engines = {{0, options.with_optimizer && nested.with_optimizer}};
  Program parsed = parse_program(program, experiment.model, source);
  for (Statement& statement : parsed) {
    for (Op& op : statement.ops) apply_habits(op.plan, nested.habits);
  }
  experiment.rank_programs.assign(static_cast<size_t>(options.ranks), parsed);
  return experiment;
}

}  // namespace zero3::sim
