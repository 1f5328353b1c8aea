#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/run_file/run_file.h"
#include "sim/run_file/run_words.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

std::string line_of(const ordered_json& item) {
  return item.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json config_of(const Settings& settings) {
  ordered_json config = {
      {"gradient_accumulation_steps", settings.gradient_accumulation_steps},
      {"fp16", {{"enabled", settings.fp16}}},
      {"zero_optimization",
       {{"stage", 3},
        {"stage3_prefetch_bucket_size", settings.prefetch_bucket_numel},
        {"stage3_max_live_parameters", settings.max_live_numel},
        {"stage3_max_reuse_distance", settings.max_reuse_distance_numel},
        {"stage3_param_persistence_threshold", settings.param_persistence_threshold_numel},
        {"stage3_model_persistence_threshold", settings.model_persistence_threshold_numel},
        {"stage3_gather_16bit_weights_on_model_save", settings.gather_16bit_weights_on_model_save},
        {"log_trace_cache_warnings", settings.log_trace_cache_warnings}}}};
  if (settings.allgather_sequential) config["zero_optimization"]["stage3_allgather_sequential"] = true;
  return config;
}

ordered_json item_of(const ParamSpec& param) {
  ordered_json item = {{"name", param.name}};
  if (param.tied_module >= 0) {
    item["same_as"] = ordered_json::array({param.tied_module, param.tied_param});
    return item;
  }
  item["shape"] = param.shape;
  if (!param.requires_grad) item["requires_grad"] = false;
  return item;
}

ordered_json item_of(const ModuleSpec& module, const std::vector<std::string>& child_names) {
  ordered_json item = {{"name", module.name}, {"type", module.type}};
  if (!module.qualified_type.empty()) item["class"] = module.qualified_type;
  for (const ParamSpec& param : module.params) item["params"].push_back(item_of(param));
  for (size_t i = 0; i < module.children.size(); ++i)
    item["children"].push_back(ordered_json::array({child_names[i], module.children[i]}));
  for (const ExternalUse& use : module.externals) {
    ordered_json external = {{"param", ordered_json::array({use.module, use.param})}};
    if (use.registered) external["registered"] = true;
    item["externals"].push_back(std::move(external));
  }
  if (module.outputs != 1) item["outputs"] = module.outputs;
  if (module.leaf) item["leaf"] = true;
  return item;
}

ordered_json header_of(const RecordedRun& run) {
  const Experiment& experiment = run.experiment;
  const auto names =
      experiment.child_names.empty() ? default_child_names(experiment.model) : experiment.child_names;
  ordered_json engines = ordered_json::array();
  for (const EngineSetup& engine : experiment.engines)
    engines.push_back({{"root", engine.root}, {"optimizer", engine.with_optimizer}});
  ordered_json modules = ordered_json::array();
  for (size_t i = 0; i < experiment.model.modules.size(); ++i)
    modules.push_back(item_of(experiment.model.modules[i], names[i]));
  ordered_json header = {{"format", "zero3sim-run"},
                         {"version", kRunVersion},
                         {"name", run.name},
                         {"ranks", experiment.rank_programs.size()},
                         {"seed", run.seed},
                         {"input_requires_grad", experiment.input_requires_grad},
                         {"deepspeed_config", config_of(experiment.settings)},
                         {"engines", std::move(engines)},
                         {"modules", std::move(modules)}};
  if (!run.recorded) return header;
  header["recorded"] = ordered_json::object();
  const auto add = [&header](const char* key, const std::string& text) {
    if (!text.empty()) header["recorded"][key] = text;
  };
  add("deepspeed", run.recorded->deepspeed);
  add("torch", run.recorded->torch);
  add("python", run.recorded->python);
  add("command", run.recorded->command);
  return header;
}

void add_tensors(ordered_json& item, const char* key, const Tensors& tensors) {
  if (tensors == Tensors{.requiring_grad = 1, .reached = 1}) return;
  item[key] = ordered_json::array({tensors.requiring_grad, tensors.reached});
  if (tensors.contained_requiring_grad == 0) return;
  item[key].push_back(tensors.contained_requiring_grad);
  item[key].push_back(tensors.contained_reached);
}

void add_count(ordered_json& item, const char* key, const TensorCount& count) {
  if (count == TensorCount{}) return;
  item[key] = ordered_json::array({count.plain});
  if (count.contained != 0) item[key].push_back(count.contained);
}

ordered_json item_of(const Flow& flow) {
  ordered_json item = ordered_json::object();
  add_tensors(item, "in", flow.inputs);
  add_tensors(item, "out", flow.outputs);
  add_count(item, "first_in", flow.first_inputs);
  add_count(item, "first_out", flow.first_outputs);
  return item;
}

std::string_view checkpoint_word(Checkpointing checkpointing) {
  const auto word = std::ranges::find(kCheckpointWords, checkpointing, &CheckpointWord::checkpointing);
  return word != kCheckpointWords.end() ? word->word : "";
}

ordered_json item_of(const std::vector<PlannedCall>& calls);

// What has no module: a read, a stop, a region.
ordered_json item_without_module(const PlannedCall& call) {
  if (call.read) return {{"read", ordered_json::array({call.read->module, call.read->param})}};
  if (call.stops) return {{"stop", true}};
  ordered_json item = {{"region", checkpoint_word(call.checkpointing)}, {"calls", item_of(call.children)}};
  if (call.flow) item.update(item_of(*call.flow));
  return item;
}

ordered_json item_of(const std::vector<PlannedCall>& calls) {
  ordered_json items = ordered_json::array();
  for (const PlannedCall& call : calls) {
    if (call.module == PlannedCall::kNoModule) {
      items.push_back(item_without_module(call));
      continue;
    }
    ordered_json inner = item_of(call.children);
    const ordered_json tensors = call.flow ? item_of(*call.flow) : ordered_json::object();
    const bool plain = call.checkpointing == Checkpointing::kNone && !call.detach_input &&
                       !call.discard_output && tensors.empty();
    if (plain && inner.empty()) {
      items.push_back(call.module);
      continue;
    }
    if (plain) {
      items.push_back(ordered_json::array({call.module, std::move(inner)}));
      continue;
    }
    ordered_json item = {{"module", call.module}};
    if (!inner.empty()) item["calls"] = std::move(inner);
    if (call.checkpointing != Checkpointing::kNone) item["checkpoint"] = checkpoint_word(call.checkpointing);
    if (call.detach_input) item["detach"] = true;
    if (call.discard_output) item["discard"] = true;
    item.update(tensors);
    items.push_back(std::move(item));
  }
  return items;
}

// Where a statement was written is not part of what it does.
bool same_program(const Program& one, const Program& other) {
  return std::ranges::equal(one, other, [](const Statement& left, const Statement& right) {
    return left.text == right.text && left.ops == right.ops;
  });
}

class ProgramWriter {
 public:
  std::string take() { return std::move(out_); }

  void add(int rank, const Statement& statement) {
    ordered_json ops = ordered_json::array();
    for (const Op& op : statement.ops) ops.push_back(item_of_op(op));
    out_ += line_of({{"rank", rank}, {"text", statement.text}, {"ops", std::move(ops)}});
  }

  void add_raised(const RecordedFailure& raised) {
    ordered_json item = {
        {"statement", raised.statement}, {"exception", raised.exception}, {"text", raised.text}};
    if (!raised.path.empty()) item["path"] = raised.path;
    out_ += line_of({{"rank", raised.rank}, {"raised", std::move(item)}});
  }

  void add_empty(int rank) { out_ += line_of(ordered_json::object({{"rank", rank}})); }
  void add_same(int rank, int earlier) { out_ += line_of({{"rank", rank}, {"same_as", earlier}}); }

 private:
  ordered_json item_of_op(const Op& op) {
    const auto word = std::ranges::find(kOpWords, op.kind, &OpWord::kind);
    ordered_json item = {{"op", word->word}};
    if (op.engine != 0) item["engine"] = op.engine;
    if (op.kind == OpKind::kForward || op.kind == OpKind::kForwardDirect) {
      item["plan"] = plan_number(op);
      if (!op.grad_enabled) item["grad"] = false;
      if (op.kind == OpKind::kForwardDirect) item["direct"] = true;
    }
    if (op.overflow) item["overflow"] = true;
    if (op.module >= 0) item["module"] = op.module;
    if (op.kind == OpKind::kGatherEnter) {
      item["params"] = ordered_json::array();
      for (const ParamRef& ref : op.params)
        item["params"].push_back(ordered_json::array({ref.module, ref.param}));
      if (op.modifier_rank >= 0) item["modifier_rank"] = op.modifier_rank;
    }
    return item;
  }

  // Defines the plan before the statement that uses it first.
  size_t plan_number(const Op& op) {
    ordered_json plan = ordered_json::object();
    if (op.root_flow) plan["root"] = item_of(*op.root_flow);
    plan["calls"] = item_of(op.plan);
    const auto [known, is_new] = plans_.try_emplace(plan.dump(), plans_.size());
    ordered_json line = {{"plan", known->second}};
    line.update(plan);
    if (is_new) out_ += line_of(line);
    return known->second;
  }

  std::string out_;
  std::map<std::string, size_t> plans_;
};

}  // namespace

std::string write_run(const RecordedRun& run) {
  ProgramWriter writer;
  const std::vector<Program>& programs = run.experiment.rank_programs;
  std::vector<size_t> distinct;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const auto earlier = std::ranges::find_if(
        distinct, [&](size_t other) { return same_program(programs[other], programs[rank]); });
    if (earlier != distinct.end()) {
      writer.add_same(static_cast<int>(rank), static_cast<int>(*earlier));
      continue;
    }
    distinct.push_back(rank);
    if (programs[rank].empty()) writer.add_empty(static_cast<int>(rank));
    for (const Statement& statement : programs[rank]) writer.add(static_cast<int>(rank), statement);
    for (const RecordedFailure& raised : run.raised) {
      if (raised.rank == static_cast<int>(rank)) writer.add_raised(raised);
    }
  }
  return line_of(header_of(run)) + writer.take() +
         (run.partial ? "" : line_of(ordered_json::object({{"end", true}})));
}

std::string write_run(const Experiment& experiment, const std::string& name, uint64_t seed) {
  return write_run(RecordedRun{experiment, name, seed, false, {}});
}

}  // namespace zero3::sim
