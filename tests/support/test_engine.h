// A test's engine: one rank of one release, driven by a program in the short notation of the observed logs.
//
//   TestEngine engine("0.15.2", {.prefetch = 1});
//   EXPECT_EQ(engine.run("t:ABC t:ABC t:AC"), "IF(B INFLIGHT)");
//
// Tokens: t to tb f F e eo E sub u take a plan, b s so w sd c l x os T r h none, g and gm params.
// (tests/golden/observed/README.md; `h`: hooks registered again.) In a plan a module is a letter, and
// "A[bc]" A calling b and c; after a module "!" is a reentrant checkpoint around it, "?" one that is not, "~" an input
// that requires no grad, "_" an output that nobody uses.
#pragma once

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/engine.h"
#include "tests/support/fakes.h"

namespace zero3::test {

inline Release release(std::string_view text) {
  const auto parsed = Release::parse(text);
  if (!parsed || !is_known(*parsed)) throw std::invalid_argument("no such release: " + std::string(text));
  return *parsed;
}

using Shapes = std::vector<std::vector<int64_t>>;

// A model, module by module, in the order in which its author would write them.
class ModelBuilder {
 public:
  ModelBuilder() { add("", "Root"); }

  // Linear children of the root without bias: 8x8, 64 elements each, the model of the observed logs.
  ModelBuilder& layers(std::string_view letters) {
    for (const char letter : letters) layer(std::string(1, letter));
    return *this;
  }
  // "A.b" is a child of A. Its first param is `weight`, others p1, p2 ...
  ModelBuilder& layer(const std::string& name, const Shapes& shapes = {{8, 8}}) {
    set_params(add(name, "Linear"), shapes);
    const size_t dot = name.rfind('.');
    below(dot == std::string::npos ? "" : name.substr(0, dot)).push_back(index(name));
    return *this;
  }
  ModelBuilder& activation(const std::string& name) { return layer(name, {}); }
  ModelBuilder& root_params(const Shapes& shapes) {
    set_params(spec_.modules.front(), shapes);
    return *this;
  }
  // A further parent, made if it is not there, that never runs by itself.
  ModelBuilder& also_below(const std::string& parent, const std::string& child) {
    if (!has(parent)) layer(parent, {});
    below(parent).push_back(index(child));
    return *this;
  }
  ModelBuilder& frozen(std::string_view letters) {
    for (const char letter : letters) {
      for (ParamSpec& param : module(std::string(1, letter)).params) param.requires_grad = false;
    }
    return *this;
  }
  ModelBuilder& outputs(const std::string& name, int outputs) {
    module(name).outputs = outputs;
    return *this;
  }
  ModelBuilder& leaf(const std::string& name) {
    module(name).leaf = true;
    return *this;
  }
  // `user` uses `owner`'s weight in its own forward.
  ModelBuilder& uses(const std::string& user, const std::string& owner, bool registered = false) {
    module(user).externals.push_back({.module = index(owner), .param = 0, .registered = registered});
    return *this;
  }
  // `name` has `other`'s weight as its own.
  ModelBuilder& tied(const std::string& name, const std::string& other) {
    module(name).params = {{.name = "weight", .shape = {}, .tied_module = index(other), .tied_param = 0}};
    return *this;
  }

  const ModelSpec& spec() const { return spec_; }
  // By the last part of the name, or all of it.
  int index(std::string_view name) const {
    for (size_t i = 0; i < spec_.modules.size(); ++i) {
      const std::string& full = spec_.modules[i].name;
      if (full == name || full.substr(full.rfind('.') + 1) == name) return static_cast<int>(i);
    }
    throw std::invalid_argument("no such module: " + std::string(name));
  }

 private:
  ModuleSpec& add(const std::string& name, const std::string& type) {
    ModuleSpec& module = spec_.modules.emplace_back();
    module.name = name;
    module.type = type;
    return module;
  }
  static void set_params(ModuleSpec& module, const Shapes& shapes) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      module.params.push_back({.name = i == 0 ? "weight" : "p" + std::to_string(i), .shape = shapes[i]});
    }
  }
  bool has(std::string_view name) const {
    return std::ranges::any_of(spec_.modules, [&](const ModuleSpec& module) { return module.name == name; });
  }
  ModuleSpec& module(const std::string& name) { return spec_.modules[static_cast<size_t>(index(name))]; }
  std::vector<int>& below(const std::string& name) { return module(name).children; }

  ModelSpec spec_;
};

inline ModelBuilder model() { return {}; }

// Sizes in elements. The defaults are those of most observed runs, not DeepSpeed's.
struct Config {
  ModelBuilder model = ModelBuilder().layers("ABCDEF");
  int64_t prefetch = 100;
  int64_t live = 1'000'000;
  int64_t reuse = 0;
  int64_t persist = 0;
  int64_t model_persist = Settings{}.model_persistence_threshold_numel;
  int accumulation = 1;
  bool optimizer = true;
  bool input_grad = true;
  bool gather_on_save = true;
  bool log_warnings = false;
  uint64_t seed = 0;
  int rank = 0;
  int world = 1;
};

class TestEngine {
 public:
  explicit TestEngine(std::string_view of_release, const Config& config = {})
      : shared_(std::make_shared<Shared>(of_release, config)), engine_(shared_->make_engine("")) {}

  // Another engine in the same process, below `root`: the same model again if that is the root itself.
  TestEngine another(std::string_view root = "") const { return {shared_, shared_->make_engine(root)}; }

  // "ok", or the failure that ended the program: its code, and the params it names with their statuses.
  std::string run(const std::string& program) {
    std::istringstream tokens(program);
    for (std::string token; tokens >> token;) {
      if (Raised raised = run_token(token)) {
        failed_at_ = token;
        failure_ = std::move(*raised);
        return outcome_text(failure_);
      }
    }
    return "ok";
  }
  // Of the last run that failed.
  const Failure& failure() const { return failure_; }
  const std::string& failed_at() const { return failed_at_; }

  // "A=N B=I C=A*" of the params in model order: NOT_AVAILABLE, INFLIGHT, AVAILABLE, *: active.
  std::string statuses() const {
    std::vector<std::string> all;
    for (const Param* param : engine_->parameters())
      all.push_back(short_name(*param) + "=" + status_of(*param));
    return joined(all, " ");
  }
  std::string status(std::string_view param) const {
    for (const Param* one : engine_->parameters()) {
      if (short_name(*one) == param) return status_of(*one);
    }
    return "?";
  }
  // A program's effect alone, in the observed notation.
  std::string events(const std::string& program) {
    observer().events.clear();
    EXPECT_EQ(run(program), "ok") << failure_.message();
    return observer().log();
  }

  Engine& engine() { return *engine_; }
  RecordingObserver& observer() { return shared_->observer; }
  FakeCommunicator& ranks() { return shared_->communicator; }
  Module& module(std::string_view name) { return shared_->model.module(shared_->config.model.index(name)); }
  Param& param(std::string_view module, int index = 0) {
    return *shared_->model.param(shared_->config.model.index(module), index);
  }
  std::vector<Call> plan(std::string_view text) {
    size_t at = 0;
    return read_plan(text, at);
  }
  std::vector<Param*> params(std::string_view letters) {
    std::vector<Param*> all;
    for (const char letter : letters) all.push_back(&param(std::string(1, letter)));
    return all;
  }

 private:
  struct Shared {
    Shared(std::string_view of_release, const Config& with)
        : config(with),
          behaviour(behaviour_of(release(of_release))),
          process(with.seed),
          model(with.model.spec()),
          communicator(with.rank, with.world) {}

    std::unique_ptr<Engine> make_engine(std::string_view root) {
      Settings settings;
      settings.prefetch_bucket_numel = config.prefetch;
      settings.max_live_numel = config.live;
      settings.max_reuse_distance_numel = config.reuse;
      settings.param_persistence_threshold_numel = config.persist;
      settings.model_persistence_threshold_numel = config.model_persist;
      settings.gradient_accumulation_steps = config.accumulation;
      settings.log_trace_cache_warnings = config.log_warnings;
      settings.gather_16bit_weights_on_model_save = config.gather_on_save;
      return std::make_unique<Engine>(process, model.module(config.model.index(root)), behaviour, settings,
                                      communicator, &observer,
                                      Engine::Options{config.optimizer, config.input_grad});
    }

    Config config;
    Behaviour behaviour;
    Process process;
    Model model;
    FakeCommunicator communicator;
    RecordingObserver observer;
  };

  TestEngine(std::shared_ptr<Shared> shared, std::unique_ptr<Engine> engine)
      : shared_(std::move(shared)), engine_(std::move(engine)) {}

  std::string status_of(const Param& param) const {
    const bool v1 = shared_->behaviour.coordinator == Coordinator::kPrefetch;
    const bool active = v1 ? param.active_count != 0 : !param.ds_active_sub_modules.empty();
    return status_text(param.ds_status).substr(0, 1) + (active ? "*" : "");
  }

  static std::string outcome_text(const Failure& failure) {
    std::vector<const Param*> params = failure.params;
    std::ranges::sort(params, {}, &Param::ds_id);
    std::vector<std::string> named;
    for (const Param* param : params)
      named.push_back(short_name(*param) + " " + status_text(param->ds_status));
    return std::string(code(failure.kind)) + (named.empty() ? "" : "(" + joined(named, ", ") + ")");
  }

  std::vector<Call> read_plan(std::string_view text, size_t& at) {
    std::vector<Call> calls;
    for (; at < text.size() && text[at] != ']'; ++at) {
      switch (text[at]) {
        case '[': calls.back().children = read_plan(text, ++at); break;
        case '!': calls.back().checkpointing = Checkpointing::kReentrant; break;
        case '?': calls.back().checkpointing = Checkpointing::kNonReentrant; break;
        case '~': calls.back().detach_input = true; break;
        case '_': calls.back().discard_output = true; break;
        default: calls.push_back({.module = &module(text.substr(at, 1))});
      }
    }
    return calls;
  }

  Raised run_token(const std::string& token) {
    const size_t colon = token.find(':');
    const std::string verb = token.substr(0, colon);
    const std::string operand = colon == std::string::npos ? "" : token.substr(colon + 1);
    if (verb == "g" || verb == "gm") {
      if (Raised raised = engine_->gather_enter(params(operand), verb == "gm" ? 0 : -1)) return raised;
      return engine_->gather_exit();
    }
    return colon == std::string::npos ? run_bare(verb) : run_forward(verb, plan(operand));
  }

  Raised run_bare(const std::string& verb) {
    if (verb == "b") return engine_->backward();
    if (verb == "s") return engine_->step();
    if (verb == "so") return engine_->step(true);
    if (verb == "w") return engine_->save_16bit_model();
    if (verb == "sd") return engine_->consolidated_16bit_state_dict();
    if (verb == "c") return engine_->save_checkpoint();
    if (verb == "l") return engine_->load_checkpoint();
    if (verb == "x") return engine_->empty_partition_cache();
    if (verb == "os") return engine_->offload_states();
    if (verb == "h") return engine_->register_hooks_again();
    if (verb == "T") {
      engine_->train(true);
      return nullptr;
    }
    if (verb == "r") {
      if (Raised raised = engine_->unwrap_enter()) return raised;
      return engine_->unwrap_exit();
    }
    throw std::invalid_argument("no such token: " + verb);
  }

  Raised run_forward(const std::string& verb, const std::vector<Call>& calls) {
    if (verb == "sub") return engine_->forward_direct(calls, true);
    if (verb == "u") {
      if (Raised raised = engine_->unwrap_enter()) return raised;
      if (Raised raised = engine_->forward(calls, false)) return raised;
      return engine_->unwrap_exit();
    }
    const bool eval = verb == "e" || verb == "eo" || verb == "E";
    engine_->train(!eval);
    const bool grad = verb != "F" && verb != "e" && verb != "eo";
    if (Raised raised = engine_->forward(calls, grad)) return raised;
    if (verb == "e") engine_->train(true);
    if (verb == "t" || verb == "to" || verb == "tb") {
      if (Raised raised = engine_->backward()) return raised;
    }
    if (verb == "t" || verb == "to") return engine_->step(verb == "to");
    return nullptr;
  }

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Engine> engine_;
  Failure failure_;
  std::string failed_at_;
};

// How a program ends on a release.
inline std::string outcome(std::string_view of_release, const std::string& program,
                           const Config& config = {}) {
  return TestEngine(of_release, config).run(program);
}

// How it ends on every release, oldest first, where that changes: "ok | 0.6.0 IF(B INFLIGHT) | 0.15.3 ok".
inline std::string history(const std::string& program, const Config& config = {}) {
  std::string text;
  std::string last;
  for (const Release& one : known_releases()) {
    const std::string now = outcome(one.text(), program, config);
    if (now == last) continue;
    text += text.empty() ? now : " | " + one.text() + " " + now;
    last = now;
  }
  return text;
}

}  // namespace zero3::test
