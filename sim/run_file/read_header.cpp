#include "sim/run_file/read_header.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/model.h"

namespace zero3::sim {
namespace {

constexpr int64_t kMaxNumel = int64_t{1} << 62;
constexpr int64_t kMaxOutputs = 1000;
constexpr int64_t kMaxModuleDepth = 500;

class HeaderReader {
 public:
  HeaderReader(const JsonPlace& place, const JsonNode& line) : place_(place), line_(line) {}

  RunHeader read() {
    check_version();
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"format", "version", "name", "ranks", "seed", "input_requires_grad",
                                         "deepspeed_config", "engines", "modules", "recorded"});
    const JsonFields fields(place_, line_, "the first line", kKeys);
    RunHeader header;
    header.ranks = static_cast<int>(fields.whole("ranks", 1, kMaxRunRanks));
    header.run.name = fields.text("name");
    header.run.seed = read_seed(fields.find("seed"));
    Experiment& experiment = header.run.experiment;
    experiment.input_requires_grad = fields.boolean_or("input_requires_grad", true);
    experiment.settings = read_config(fields.needed("deepspeed_config"));
    read_modules(fields.list("modules"), fields.needed("modules"), experiment);
    experiment.engines.clear();
    for (const JsonNode& item : fields.list("engines")) {
      static constexpr auto kEngineKeys = std::to_array<std::string_view>({"root", "optimizer"});
      const JsonFields engine(place_, item, "an engine", kEngineKeys);
      experiment.engines.push_back({module_index(place_, engine.needed("root"), experiment.model),
                                    engine.boolean_or("optimizer", true)});
    }
    if (experiment.engines.empty()) place_.fail(fields.needed("engines").column, "a run has an engine");
    if (const JsonNode* recorded = fields.find("recorded")) header.run.recorded = read_recorded(*recorded);
    return header;
  }

 private:
  // First of all: a newer file may hold anything.
  void check_version() const {
    const JsonNode* format = line_.find("format");
    if (format == nullptr || format->text != "zero3sim-run") {
      place_.fail(line_.column, "this is no run file",
                  R"(its first line has "format": "zero3sim-run" (docs/run-format.md))");
    }
    const JsonNode* given = line_.find("version");
    if (given == nullptr) place_.fail(line_.column, "the first line has no \"version\"");
    const int64_t number = whole_number(place_, *given, "the version", 1);
    if (number <= kRunVersion) return;
    place_.fail(
        given->column,
        fmt::format("version {} is newer than this program, which reads version {}", number, kRunVersion),
        "use a newer zero3sim");
  }

  uint64_t read_seed(const JsonNode* node) const {
    if (node == nullptr) return 0;
    if (!node->is(JsonNode::Kind::kWhole) || node->negative)
      place_.fail(node->column, "\"seed\" must be a whole number from 0 to 2^64 - 1");
    return node->magnitude;
  }

  Settings read_config(const JsonNode& node) const {
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"gradient_accumulation_steps", "fp16", "zero_optimization"});
    static constexpr auto kZeroKeys = std::to_array<std::string_view>(
        {"stage", "stage3_prefetch_bucket_size", "stage3_max_live_parameters", "stage3_max_reuse_distance",
         "stage3_param_persistence_threshold", "stage3_model_persistence_threshold",
         "stage3_gather_16bit_weights_on_model_save", "log_trace_cache_warnings",
         "stage3_allgather_sequential"});
    static constexpr auto kFp16Keys = std::to_array<std::string_view>({"enabled"});
    const JsonFields config(place_, node, "deepspeed_config", kKeys);
    const JsonFields zero(place_, config.needed("zero_optimization"), "zero_optimization", kZeroKeys);
    zero.whole("stage", 3, 3);
    Settings settings;
    settings.gradient_accumulation_steps =
        static_cast<int>(config.whole("gradient_accumulation_steps", 1, kMaxAccumulation));
    if (const JsonNode* fp16 = config.find("fp16"))
      settings.fp16 = JsonFields(place_, *fp16, "fp16", kFp16Keys).boolean_or("enabled", false);
    settings.prefetch_bucket_numel = zero.whole("stage3_prefetch_bucket_size", 0, kMaxNumel);
    settings.max_live_numel = zero.whole("stage3_max_live_parameters", 0, kMaxNumel);
    settings.max_reuse_distance_numel = zero.whole("stage3_max_reuse_distance", 0, kMaxNumel);
    settings.param_persistence_threshold_numel =
        zero.whole("stage3_param_persistence_threshold", 0, kMaxNumel);
    settings.model_persistence_threshold_numel =
        zero.whole("stage3_model_persistence_threshold", 0, std::numeric_limits<int64_t>::max());
    settings.gather_16bit_weights_on_model_save =
        zero.boolean_or("stage3_gather_16bit_weights_on_model_save", false);
    settings.log_trace_cache_warnings = zero.boolean_or("log_trace_cache_warnings", false);
    settings.allgather_sequential = zero.boolean_or("stage3_allgather_sequential", false);
    return settings;
  }

  void read_modules(std::span<const JsonNode> items, const JsonNode& list, Experiment& experiment) {
    if (items.empty()) place_.fail(list.column, "a run has modules");
    ModelSpec& model = experiment.model;
    model.modules.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i)
      experiment.child_names.push_back(read_module(items[i], i, model));
    for (size_t i = 0; i < items.size(); ++i) read_references(items[i], model.modules[i], model);
    check_cycles(items, model);
    if (!total_numel(model)) place_.fail(list.column, "the model has more than 2^62 elements");
    const TreeExtent extent = extent_of(model);
    if (extent.depth > kMaxModuleDepth)
      place_.fail(list.column, fmt::format("modules nested more than {} deep", kMaxModuleDepth));
    if (extent.visits >= kMaxTree)
      place_.fail(list.column, fmt::format("the model has {} modules or more", kMaxTree),
                  "shared ones count once a parent");
    if (experiment.child_names == default_child_names(model)) experiment.child_names.clear();
  }

  // All but what refers to the params of other modules. Hands back the names of its children.
  std::vector<std::string> read_module(const JsonNode& item, size_t index, ModelSpec& model) const {
    static constexpr auto kKeys = std::to_array<std::string_view>(
        {"name", "type", "class", "params", "children", "externals", "outputs", "leaf"});
    const JsonFields fields(place_, item, fmt::format("module {}", index), kKeys);
    ModuleSpec& module = model.modules[index];
    module.name = fields.text("name");
    module.type = fields.text_or("type", "Module");
    module.qualified_type = fields.text_or("class", "");
    module.outputs = static_cast<int>(fields.whole_or("outputs", 1, kMaxOutputs, 1));
    module.leaf = fields.boolean_or("leaf", false);
    std::set<std::string> taken;
    for (const JsonNode& param : fields.list_or_empty("params")) {
      module.params.push_back(read_param(param));
      check_name(module.params.back().name, param.column, taken);
    }
    std::vector<std::string> child_names;
    for (const JsonNode& child : fields.list_or_empty("children")) {
      const std::span<const JsonNode> pair = list_items(place_, child, "a child");
      if (pair.size() != 2 || !pair[0].is(JsonNode::Kind::kText))
        place_.fail(child.column, "a child is [name, module]");
      check_name(pair[0].text, pair[0].column, taken);
      child_names.push_back(pair[0].text);
      module.children.push_back(module_index(place_, pair[1], model));
    }
    return child_names;
  }

  void check_name(const std::string& name, int column, std::set<std::string>& taken) const {
    if (name.empty() || name.find('.') != std::string::npos)
      place_.fail(column, fmt::format("'{}' is no name for a parameter or a child", name));
    if (!taken.insert(name).second) place_.fail(column, fmt::format("the name '{}' a second time", name));
  }

  ParamSpec read_param(const JsonNode& item) const {
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"name", "shape", "requires_grad", "same_as"});
    const JsonFields fields(place_, item, "a parameter", kKeys);
    ParamSpec param;
    param.name = fields.text("name");
    if (fields.find("same_as") != nullptr) {
      if (fields.find("shape") != nullptr || fields.find("requires_grad") != nullptr)
        place_.fail(item.column, "a parameter with \"same_as\" has no shape or flag of its own");
      return param;
    }
    for (const JsonNode& extent : fields.list("shape"))
      param.shape.push_back(whole_number(place_, extent, "an extent", 0, kMaxNumel));
    if (!numel_of(param.shape)) place_.fail(item.column, "a parameter has more than 2^62 elements");
    param.requires_grad = fields.boolean_or("requires_grad", true);
    return param;
  }

  void read_references(const JsonNode& item, ModuleSpec& module, const ModelSpec& model) const {
    const JsonNode* params = item.find("params");
    for (size_t i = 0; params != nullptr && i < params->items.size(); ++i) {
      const JsonNode* same_as = params->items[i].find("same_as");
      if (same_as == nullptr) continue;
      const ParamRef owner = param_ref(place_, *same_as, model);
      if (is_tied(owner))
        place_.fail(same_as->column, "\"same_as\" names a parameter that is itself another's");
      ParamSpec tied =
          model.modules[static_cast<size_t>(owner.module)].params[static_cast<size_t>(owner.param)];
      tied.name = module.params[i].name;
      tied.tied_module = owner.module;
      tied.tied_param = owner.param;
      module.params[i] = std::move(tied);
    }
    const JsonNode* externals = item.find("externals");
    if (externals == nullptr) return;
    for (const JsonNode& external : list_items(place_, *externals, "\"externals\"")) {
      static constexpr auto kKeys = std::to_array<std::string_view>({"param", "registered"});
      const JsonFields fields(place_, external, "an external", kKeys);
      const ParamRef used = param_ref(place_, fields.needed("param"), model);
      module.externals.push_back({used.module, used.param, fields.boolean_or("registered", false)});
    }
  }

  bool is_tied(ParamRef param) const {
    const JsonNode& module = line_.find("modules")->items[static_cast<size_t>(param.module)];
    return module.find("params")->items[static_cast<size_t>(param.param)].find("same_as") != nullptr;
  }

  void check_cycles(std::span<const JsonNode> items, const ModelSpec& model) const {
    enum : char { kNew, kOpen, kDone };
    std::vector<char> state(items.size(), kNew);
    for (size_t start = 0; start < items.size(); ++start) {
      std::vector<std::pair<size_t, size_t>> open;  // module, next child
      if (state[start] == kNew) open.emplace_back(start, 0);
      while (!open.empty()) {
        auto& [module, next] = open.back();
        state[module] = kOpen;
        const std::vector<int>& children = model.modules[module].children;
        if (next == children.size()) {
          state[module] = kDone;
          open.pop_back();
          continue;
        }
        const auto child = static_cast<size_t>(children[next]);
        if (state[child] == kOpen) {
          place_.fail(items[module].find("children")->items[next].column,
                      fmt::format("a cycle: module {} is below itself", child),
                      "a module tree has no cycles");
        }
        ++next;
        if (state[child] == kNew) open.emplace_back(child, 0);
      }
    }
  }

  // What it was recorded on changes nothing of what runs: other keys are passed over.
  RecordedOn read_recorded(const JsonNode& node) const {
    const JsonFields fields(place_, node, "recorded", node.keys_view());
    return {fields.text_or("deepspeed", ""), fields.text_or("torch", ""), fields.text_or("python", ""),
            fields.text_or("command", "")};
  }

  const JsonPlace& place_;
  const JsonNode& line_;
};

}  // namespace

RunHeader read_run_header(const JsonPlace& place, const JsonNode& line) {
  return HeaderReader(place, line).read();
}

int module_index(const JsonPlace& place, const JsonNode& node, const ModelSpec& model) {
  const auto last = static_cast<int64_t>(model.modules.size()) - 1;
  return static_cast<int>(whole_number(place, node, "a module's number", 0, last));
}

ParamRef param_ref(const JsonPlace& place, const JsonNode& node, const ModelSpec& model) {
  const std::span<const JsonNode> pair = list_items(place, node, "a parameter");
  if (pair.size() != 2) place.fail(node.column, "a parameter is [module, param]");
  const int module = module_index(place, pair[0], model);
  const auto count = static_cast<int64_t>(model.modules[static_cast<size_t>(module)].params.size());
  if (count == 0) place.fail(node.column, fmt::format("module {} has no parameters", module));
  return {module, static_cast<int>(whole_number(place, pair[1], "a parameter's number", 0, count - 1))};
}

}  // namespace zero3::sim
