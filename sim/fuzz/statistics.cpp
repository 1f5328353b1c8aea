#include "sim/fuzz/statistics.h"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "coordinator/failure.h"
#include "sim/fuzz/fuzzer.h"
#include "sim/fuzz/generator.h"
#include "sim/run_file/run_words.h"
#include "sim/simulate.h"

namespace zero3::sim {
namespace {

bool any_module(const Experiment& experiment, const std::function<bool(const ModuleSpec&)>& has) {
  return std::ranges::any_of(experiment.model.modules, has);
}

bool any_param(const Experiment& experiment, const std::function<bool(const ParamSpec&)>& has) {
  return any_module(experiment,
                    [&](const ModuleSpec& module) { return std::ranges::any_of(module.params, has); });
}

bool any_call(const std::vector<PlannedCall>& plan, const std::function<bool(const PlannedCall&)>& has) {
  return std::ranges::any_of(
      plan, [&](const PlannedCall& call) { return has(call) || any_call(call.children, has); });
}

bool any_op(const Experiment& experiment, const std::function<bool(const Op&)>& has) {
  for (const Statement& statement : experiment.rank_programs.front()) {
    if (std::ranges::any_of(statement.ops, has)) return true;
  }
  return false;
}

bool any_call(const Experiment& experiment, const std::function<bool(const PlannedCall&)>& has) {
  return any_op(experiment, [&](const Op& op) { return any_call(op.plan, has); });
}

bool is_empty(const ParamSpec& param) {
  return std::ranges::find(param.shape, int64_t{0}) != param.shape.end();
}

bool has_shared_module(const Experiment& experiment) {
  std::multiset<int> parents;
  for (const ModuleSpec& module : experiment.model.modules)
    parents.insert(module.children.begin(), module.children.end());
  return std::ranges::any_of(parents, [&](int module) { return parents.count(module) > 1; });
}

bool repeats_a_module(const std::vector<PlannedCall>& plan) {
  std::set<int> called;
  return !std::ranges::all_of(plan, [&](const PlannedCall& call) {
    return called.insert(call.module).second;
  }) || std::ranges::any_of(plan, [](const PlannedCall& call) { return repeats_a_module(call.children); });
}

struct Shape {
  const char* name;
  std::function<bool(const Experiment& experiment)> has;
};

Shape checkpointed(const char* name, Checkpointing how) {
  return {name, [how](const Experiment& experiment) {
            return any_call(experiment, [how](const PlannedCall& call) { return call.checkpointing == how; });
          }};
}

Shape external(const char* name, bool registered) {
  return {name, [registered](const Experiment& experiment) {
            return any_module(experiment, [registered](const ModuleSpec& module) {
              return std::ranges::any_of(
                  module.externals, [&](const ExternalUse& use) { return use.registered == registered; });
            });
          }};
}

Shape of_params(const char* name, std::function<bool(const ParamSpec&)> has) {
  return {name, [has = std::move(has)](const Experiment& experiment) { return any_param(experiment, has); }};
}

Shape of_modules(const char* name, std::function<bool(const ModuleSpec&)> has) {
  return {name, [has = std::move(has)](const Experiment& experiment) { return any_module(experiment, has); }};
}

const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> kShapes = {
      {"flat",
       [](const Experiment& e) {
         return e.model.modules[1].type == "Linear" && e.model.modules[1].name == "A";
       }},
      of_modules("nested", [](const ModuleSpec& m) { return m.name.find('.') != std::string::npos; }),
      of_modules("params and children",
                 [](const ModuleSpec& m) { return !m.params.empty() && !m.children.empty(); }),
      of_modules("several params", [](const ModuleSpec& m) { return m.params.size() > 1; }),
      of_modules("without params",
                 [](const ModuleSpec& m) { return m.params.empty() && m.children.empty(); }),
      of_params("bias", [](const ParamSpec& p) { return p.name == "bias"; }),
      of_params("empty param", is_empty),
      of_params("frozen param", [](const ParamSpec& p) { return !p.requires_grad; }),
      of_params("tied param", [](const ParamSpec& p) { return p.tied_module >= 0; }),
      {"shared module", has_shared_module},
      {"repeated module",
       [](const Experiment& e) { return any_op(e, [](const Op& op) { return repeats_a_module(op.plan); }); }},
      of_modules("several outputs", [](const ModuleSpec& m) { return m.outputs > 1; }),
      of_modules("leaf module", [](const ModuleSpec& m) { return m.leaf; }),
      external("external param, registered", true),
      external("external param, used", false),
      checkpointed("checkpointing, reentrant", Checkpointing::kReentrant),
      checkpointed("checkpointing, non-reentrant", Checkpointing::kNonReentrant),
      checkpointed("checkpointing, whole recompute", Checkpointing::kWholeRecompute),
      {"detached input",
       [](const Experiment& e) { return any_call(e, [](const PlannedCall& c) { return c.detach_input; }); }},
      {"discarded output",
       [](const Experiment& e) {
         return any_call(e, [](const PlannedCall& c) { return c.discard_output; });
       }},
      {"no optimizer", [](const Experiment& e) { return !e.engines.front().with_optimizer; }},
      {"gradient accumulation",
       [](const Experiment& e) { return e.settings.gradient_accumulation_steps > 1; }},
      {"persistent params",
       [](const Experiment& e) { return e.settings.param_persistence_threshold_numel > 0; }},
      {"sequential all-gathers", [](const Experiment& e) { return e.settings.allgather_sequential; }},
      {"prefetch bucket 0", [](const Experiment& e) { return e.settings.prefetch_bucket_numel == 0; }},
      {"prefetch bucket 1", [](const Experiment& e) { return e.settings.prefetch_bucket_numel == 1; }},
      {"live limit", [](const Experiment& e) { return e.settings.max_live_numel < 1000; }},
      {"reuse distance", [](const Experiment& e) { return e.settings.max_reuse_distance_numel > 0; }},
      {"model persistence",
       [](const Experiment& e) { return e.settings.model_persistence_threshold_numel < 1000; }},
      {"input without grad", [](const Experiment& e) { return !e.input_requires_grad; }},
      {"two ranks", [](const Experiment& e) { return e.rank_programs.size() == 2; }},
      {"skipped step",
       [](const Experiment& e) { return any_op(e, [](const Op& op) { return op.overflow; }); }},
      {"gather with modifier",
       [](const Experiment& e) { return any_op(e, [](const Op& op) { return op.modifier_rank >= 0; }); }},
      {"no-grad forward",
       [](const Experiment& e) {
         return any_op(e, [](const Op& op) { return op.kind == OpKind::kForward && !op.grad_enabled; });
       }},
  };
  return kShapes;
}

std::string name_of(const OpWord& word) {
  return word.kind == OpKind::kForwardDirect ? "forward, direct" : std::string(word.word);
}

void add_outcome(FuzzStatistics& statistics, const Experiment& experiment, const Release& release) {
  const SimulationResult result = simulate(experiment, {release, 0, {}});
  if (!result.failed()) {
    ++statistics.completed;
    return;
  }
  const RankFailure& failure = *result.ranks[static_cast<size_t>(result.first_failed_rank)].failure;
  ++statistics.failures[std::string(name(failure.kind))];
  if (2 * failure.statement >= experiment.rank_programs.front().size()) ++statistics.failed_late;
}

}  // namespace

FuzzStatistics statistics_of(uint64_t seed, uint64_t first, uint64_t programs, const FuzzTarget& target,
                             const std::vector<int>& ranks) {
  FuzzStatistics statistics;
  FuzzOptions options;
  options.ranks = ranks;
  for (const Shape& shape : all_shapes()) statistics.shapes[shape.name] = 0;
  for (const OpWord& word : kOpWords) statistics.operations[name_of(word)] = 0;
  for (uint64_t i = first; i < first + programs; ++i) {
    const Experiment experiment = generate(seed, i, target, ranks_of(options, i));
    ++statistics.programs;
    for (const Shape& shape : all_shapes()) statistics.shapes[shape.name] += shape.has(experiment) ? 1 : 0;
    for (const OpWord& word : kOpWords) {
      const bool has = any_op(experiment, [&](const Op& op) { return op.kind == word.kind; });
      statistics.operations[name_of(word)] += has ? 1 : 0;
    }
    add_outcome(statistics, experiment, target.release);
  }
  return statistics;
}

std::string text_of(const FuzzStatistics& statistics) {
  std::string text = fmt::format(
      "{} programs: {} complete, {} fail ({} in the second half of their statements)\n", statistics.programs,
      statistics.completed, statistics.programs - statistics.completed, statistics.failed_late);
  const auto add = [&text](const char* title, const std::map<std::string, uint64_t>& counts) {
    text += fmt::format("\n{}\n", title);
    for (const auto& [what, count] : counts) text += fmt::format("  {:>6}  {}\n", count, what);
  };
  add("failures", statistics.failures);
  add("shapes: programs that have it", statistics.shapes);
  add("operations: programs that have it", statistics.operations);
  return text;
}

}  // namespace zero3::sim
