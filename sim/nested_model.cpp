#include "sim/nested_model.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxBytes = 16U << 20U;
constexpr int64_t kMaxNumel = int64_t{1} << 46;

class NestedReader {
 public:
  NestedReader(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  ModelSpec read() {
    if (text_.size() > kMaxBytes)
      throw BadInput(fmt::format("{}: larger than {} MiB", source_, kMaxBytes >> 20U));
    check_depth();
    const ordered_json document = parse();
    if (!document.is_object() || !document.contains("model") || !document["model"].is_object()) {
      fail("", "no \"model\" object",
           R"(for example {"model": {"root": {"p": [], "c": ["a"]}, "a": {"p": [64], "c": []}}})");
    }
    for (const auto& [key, value] : document.items()) {
      static const std::set<std::string> kKeys = {"model", "shared", "frozen", "cfg", "s"};
      if (!kKeys.contains(key))
        fail(key, fmt::format("unknown key \"{}\"", key), "keys are: model, shared, frozen");
    }
    add_modules(document["model"]);
    connect(document["model"]);
    if (document.contains("shared")) add_shared(document["shared"]);
    if (document.contains("frozen")) freeze(document["frozen"]);
    check_cycles();
    qualify_names();
    return std::move(model_);
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
      const std::string name = item.is_string() ? item.get<std::string>() : "";
      const size_t dot = name.find('.');
      const auto module = index_.find(name.substr(0, dot));
      bool known = false;
      if (dot != std::string::npos && module != index_.end()) {
        for (ParamSpec& param : model_.modules[static_cast<size_t>(module->second)].params) {
          if (param.name != name.substr(dot + 1)) continue;
          param.requires_grad = false;
          known = true;
        }
      }
      if (!known)
        fail(name.empty() ? "frozen" : name, fmt::format("unknown param \"{}\"", name),
             "for example \"a.p0\"");
    }
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
  std::map<std::string, int> index_;
};

}  // namespace

ModelSpec parse_nested_model(const std::string& json, const std::string& source) {
  return NestedReader(json, source).read();
}

Experiment nested_experiment(ModelSpec model, std::string_view program, const ShortFormOptions& options,
                             const std::string& source) {
  Experiment experiment;
  experiment.model = std::move(model);
  experiment.settings = settings_of(options);
  experiment.input_requires_grad = options.input_requires_grad;
  experiment.engines = {{0, options.with_optimizer}};
  experiment.rank_programs.assign(static_cast<size_t>(options.ranks),
                                  parse_program(program, experiment.model, source));
  return experiment;
}

}  // namespace zero3::sim
