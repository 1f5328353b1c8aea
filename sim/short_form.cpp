#include "sim/short_form.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

constexpr int kMaxBracketDepth = 200;
constexpr std::string_view kTokens = "t to tb f b s so F e eo E w c l x g gm r u sd sub os rs T";

// Reads one program; every error knows its column.
class Reader {
 public:
  Reader(std::string_view text, const ModelSpec& model, const std::string& source)
      : text_(text), model_(model), source_(source) {
    for (size_t i = 0; i < model.modules.size(); ++i) {
      const std::string& name = model.modules[i].name;
      by_name_.try_emplace(name.substr(name.rfind('.') + 1), static_cast<int>(i));
    }
  }

  Program read() {
    Program program;
    for (skip_spaces(); position_ < text_.size(); skip_spaces()) program.push_back(read_statement());
    if (program.empty()) fail(0, "an empty program", "for example: t:ABC t:ABC t:AC");
    return program;
  }

 private:
  Place place_of(size_t at) const {
    const std::string_view before = text_.substr(0, std::min(at, text_.size()));
    const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return {1 + static_cast<int>(std::ranges::count(before, '\n')), static_cast<int>(at - line_start) + 1};
  }

  [[noreturn]] void fail(size_t at, const std::string& message, const std::string& advice = "") const {
    throw BadInput(source_, std::string(text_), place_of(at), message, advice);
  }

  void skip_spaces() {
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  Statement read_statement() {
    start_ = position_;
    end_ = std::min(text_.find_first_of(" \n\t", position_), text_.size());
    const std::string_view token = text_.substr(start_, end_ - start_);
    const size_t colon = token.find(':');
    const std::string verb(token.substr(0, colon));
    position_ = colon == std::string_view::npos ? end_ : start_ + colon + 1;
    Statement statement{std::string(token), place_of(start_), {}};
    statement.ops = make_ops(verb, colon != std::string_view::npos);
    if (position_ != end_) fail(position_, fmt::format("unexpected '{}' in '{}'", text_[position_], token));
    position_ = end_;
    return statement;
  }

  std::vector<Op> make_ops(const std::string& verb, bool has_operand) {
    static const std::map<std::string, std::vector<OpKind>> kBare = {
        {"b", {OpKind::kBackward}},
        {"s", {OpKind::kStep}},
        {"w", {OpKind::kSave16bit}},
        {"sd", {OpKind::kConsolidate}},
        {"c", {OpKind::kSaveCheckpoint}},
        {"l", {OpKind::kLoadCheckpoint}},
        {"x", {OpKind::kEmptyPartitionCache}},
        {"os", {OpKind::kOffloadStates}},
        {"rs", {OpKind::kReloadStates}},
        {"T", {OpKind::kTrain}},
        {"r", {OpKind::kUnwrapEnter, OpKind::kUnwrapExit}},
    };
    if (const auto bare = kBare.find(verb); bare != kBare.end()) {
      if (has_operand)
        fail(start_, fmt::format("'{}' takes no modules", verb), fmt::format("write '{}' alone", verb));
      std::vector<Op> ops;
      for (const OpKind kind : bare->second) ops.push_back({.kind = kind});
      return ops;
    }
    if (verb == "so" && !has_operand) return {{.kind = OpKind::kStep, .overflow = true}};
    if (verb == "g" || verb == "gm") return gather_ops(verb == "gm" ? 0 : -1, has_operand);
    return forward_ops(verb, has_operand);
  }

  std::vector<Op> gather_ops(int modifier_rank, bool has_operand) {
    if (!has_operand) fail(start_, "which params to gather is missing", "for example g:B, or g:a.p0,b.p1");
    Op enter{.kind = OpKind::kGatherEnter, .params = read_params(), .modifier_rank = modifier_rank};
    return {enter, {.kind = OpKind::kGatherExit}};
  }

  std::vector<Op> forward_ops(const std::string& verb, bool has_operand) {
    struct Form {
      bool train = false;
      bool eval = false;
      bool grad = true;
      bool backward = false;
      bool step = false;
      bool overflow = false;
      bool train_after = false;
      bool direct = false;
      bool unwrapped = false;
    };
    static const std::map<std::string, Form> kForms = {
        {"t", {.train = true, .backward = true, .step = true}},
        {"to", {.train = true, .backward = true, .step = true, .overflow = true}},
        {"tb", {.train = true, .backward = true}},
        {"f", {.train = true}},
        {"F", {.train = true, .grad = false}},
        {"e", {.eval = true, .grad = false, .train_after = true}},
        {"eo", {.eval = true, .grad = false}},
        {"E", {.eval = true}},
        {"sub", {.direct = true}},
        {"u", {.grad = false, .unwrapped = true}},
    };
    const auto found = kForms.find(verb);
    if (found == kForms.end())
      fail(start_, fmt::format("unknown token '{}'", verb), fmt::format("tokens are: {}", kTokens));
    const Form& form = found->second;
    if (!has_operand)
      fail(start_, fmt::format("'{}' needs the modules to call", verb),
           fmt::format("for example {}:ABC", verb));
    std::vector<Op> ops;
    if (form.unwrapped) ops.push_back({.kind = OpKind::kUnwrapEnter});
    if (form.train) ops.push_back({.kind = OpKind::kTrain});
    if (form.eval) ops.push_back({.kind = OpKind::kEval});
    ops.push_back({.kind = form.direct ? OpKind::kForwardDirect : OpKind::kForward,
                   .grad_enabled = form.grad,
                   .plan = read_plan(0)});
    if (form.backward) ops.push_back({.kind = OpKind::kBackward});
    if (form.step) ops.push_back({.kind = OpKind::kStep, .overflow = form.overflow});
    if (form.train_after) ops.push_back({.kind = OpKind::kTrain});
    if (form.unwrapped) ops.push_back({.kind = OpKind::kUnwrapExit});
    return ops;
  }

  std::vector<PlannedCall> read_plan(int depth) {
    if (depth > kMaxBracketDepth)
      fail(position_, fmt::format("more than {} nested brackets", kMaxBracketDepth));
    std::vector<PlannedCall> plan;
    while (position_ < end_ && text_[position_] != ']') {
      if (text_[position_] == '[') {
        const size_t bracket = position_++;
        if (plan.empty())
          fail(bracket, "'[' without a module before it", "for example A[ab]: A calls a and b");
        plan.back().children = read_plan(depth + 1);
        if (position_ >= end_) fail(bracket, "'[' without its ']'");
        ++position_;
        continue;
      }
      const size_t at = position_;
      plan.push_back({.module = module_named(std::string(1, text_[position_++]), at)});
    }
    if (position_ < end_ && depth == 0) fail(position_, "']' without its '['");
    if (plan.empty() && depth == 0)
      fail(position_ > start_ ? position_ - 1 : start_, "no module to call", "for example t:ABC");
    return plan;
  }

  // "B", "AB", "A,B" (each module's first param) or "a.p0,b.p1".
  std::vector<ParamRef> read_params() {
    std::vector<ParamRef> params;
    while (position_ < end_) {
      const size_t comma = std::min(text_.find(',', position_), end_);
      const std::string item(text_.substr(position_, comma - position_));
      if (item.empty()) fail(position_, "a param's name is missing");
      const size_t dot = item.find('.');
      if (dot == std::string::npos) {
        for (size_t i = 0; i < item.size(); ++i)
          params.push_back(first_param(item.substr(i, 1), position_ + i));
      } else {
        params.push_back(named_param(item.substr(0, dot), item.substr(dot + 1), position_));
      }
      position_ = comma;
      if (position_ < end_) ++position_;
    }
    if (params.empty()) fail(start_, "which params to gather is missing", "for example g:B, or g:a.p0,b.p1");
    return params;
  }

  ParamRef first_param(const std::string& module, size_t at) const {
    const int index = module_named(module, at);
    if (model_.modules[static_cast<size_t>(index)].params.empty())
      fail(at, fmt::format("module '{}' has no params", module));
    return {index, 0};
  }

  ParamRef named_param(const std::string& module, const std::string& param, size_t at) const {
    const int index = module_named(module, at);
    const auto& params = model_.modules[static_cast<size_t>(index)].params;
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i].name == param) return {index, static_cast<int>(i)};
    }
    std::string known;
    for (const ParamSpec& spec : params) known += (known.empty() ? "" : ", ") + spec.name;
    fail(at, fmt::format("module '{}' has no param '{}'", module, param),
         known.empty() ? "it has none" : fmt::format("it has: {}", known));
  }

  int module_named(const std::string& name, size_t at) const {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return found->second;
    std::string known;
    for (const auto& [other, index] : by_name_) {
      if (index != 0) known += (known.empty() ? "" : " ") + other;
    }
    fail(at, fmt::format("unknown module '{}'", name), fmt::format("modules are: {}", known));
  }

  std::string_view text_;
  const ModelSpec& model_;
  std::string source_;
  std::map<std::string, int> by_name_;
  size_t position_ = 0;
  size_t start_ = 0;  // of the statement being read
  size_t end_ = 0;
};

constexpr int kFewestModules = 6;

// The highest module letter the program mentions after a colon, so that it exists.
int modules_needed(std::string_view program) {
  int count = kFewestModules;
  bool operand = false;
  for (const char c : program) {
    if (c == ':') operand = true;
    if (c == ' ' || c == '\n' || c == '\t') operand = false;
    if (operand && c >= 'A' && c <= 'Z') count = std::max(count, c - 'A' + 1);
  }
  return count;
}

ModelSpec flat_model(int count, const std::string& dup) {
  constexpr int64_t kSide = 8;
  ModelSpec model;
  model.modules.push_back({.name = "root", .type = "Root", .params = {}, .children = {}, .externals = {}});
  for (int i = 0; i < count; ++i) {
    ModuleSpec module;
    module.name = std::string(1, static_cast<char>('A' + i));
    module.type = "Linear";
    module.params.push_back({.name = "weight", .shape = {kSide, kSide}});
    model.modules.push_back(std::move(module));
    model.modules.front().children.push_back(i + 1);
  }
  if (dup.empty()) return model;
  if (dup.size() != 1 || dup[0] < 'A' || dup[0] >= 'A' + count) {
    throw BadInput("--dup", dup, Place{1, 1}, fmt::format("'{}' is not a module", dup),
                   fmt::format("modules are A to {}", static_cast<char>('A' + count - 1)));
  }
  ModuleSpec parent;
  parent.name = count > 'X' - 'A' ? "second" : "X";
  parent.type = "Holder";
  parent.children.push_back(dup[0] - 'A' + 1);
  model.modules.front().children.push_back(static_cast<int>(model.modules.size()));
  model.modules.push_back(std::move(parent));
  return model;
}

}  // namespace

Settings settings_of(const ShortFormOptions& options) {
  Settings settings;
  settings.prefetch_bucket_numel = options.prefetch_bucket_numel;
  settings.max_live_numel = options.max_live_numel;
  settings.max_reuse_distance_numel = options.max_reuse_distance_numel;
  settings.param_persistence_threshold_numel = options.param_persistence_threshold_numel;
  settings.gradient_accumulation_steps = options.gradient_accumulation_steps;
  settings.log_trace_cache_warnings = options.log_trace_cache_warnings;
  settings.gather_16bit_weights_on_model_save = true;
  return settings;
}

Program parse_program(std::string_view program, const ModelSpec& model, const std::string& source) {
  return Reader(program, model, source).read();
}

Experiment parse_short_form(std::string_view program, const ShortFormOptions& options,
                            const std::string& source) {
  Experiment experiment;
  experiment.model = flat_model(modules_needed(program), options.dup);
  experiment.settings = settings_of(options);
  experiment.input_requires_grad = options.input_requires_grad;
  experiment.engines = {{0, options.with_optimizer}};
  const Program parsed = parse_program(program, experiment.model, source);
  experiment.rank_programs.assign(static_cast<size_t>(options.ranks), parsed);
  return experiment;
}

}  // namespace zero3::sim
