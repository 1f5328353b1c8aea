#include "sim/scenario/program.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/plan.h"

namespace zero3::sim {
namespace {

constexpr int64_t kMaxRepeats = 1'000'000;
constexpr int64_t kMaxWeight = 1'000'000;
constexpr int64_t kMaxRank = 1'000'000;

// A step that is one word, or that word with an engine: what DeepSpeed's object does is its name.
struct Word {
  std::string_view name;
  OpKind kind;
  bool overflow = false;
};
constexpr auto kWords = std::to_array<Word>({
    {"backward", OpKind::kBackward},
    {"step", OpKind::kStep},
    {"overflowing_step", OpKind::kStep, true},
    {"train_mode", OpKind::kTrain},
    {"eval_mode", OpKind::kEval},
    {"save_16bit_model", OpKind::kSave16bit},
    {"save_fp16_model", OpKind::kSave16bit},
    {"consolidated_16bit_state_dict", OpKind::kConsolidate},
    {"save_checkpoint", OpKind::kSaveCheckpoint},
    {"load_checkpoint", OpKind::kLoadCheckpoint},
    {"empty_partition_cache", OpKind::kEmptyPartitionCache},
    {"offload_states", OpKind::kOffloadStates},
    {"reload_states", OpKind::kReloadStates},
    {"register_hooks_again", OpKind::kRegisterHooksAgain},
});

// A step with a value, and the keys that may stand beside it.
struct Verb {
  std::string_view name;
  std::vector<std::string_view> options;
};
const std::vector<Verb>& verbs() {
  static const std::vector<Verb> kVerbs = {
      {"train", {"engine", "direct", "overflow"}},
      {"forward", {"engine", "direct", "grad"}},
      {"evaluate", {"engine", "direct"}},
      {"gather", {"engine", "modifier_rank", "do"}},
      {"unwrap_model_for_generation", {"engine"}},
      {"repeat", {"do"}},
      {"when", {"do", "else"}},
      {"choose", {"per_rank"}},
  };
  return kVerbs;
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  for (const Word& word : kWords) names.push_back(word.name);
  return names;
}

const Word* find_word(std::string_view name) {
  const auto found = std::ranges::find(kWords, name, &Word::name);
  return found == kWords.end() ? nullptr : &*found;
}

const Verb* find_verb(std::string_view name) {
  const auto found = std::ranges::find(verbs(), name, &Verb::name);
  return found == verbs().end() ? nullptr : &*found;
}

// A step's own words, without the steps inside it.
std::string text_of(const YamlNode& node) {
  if (!node.is_map()) return short_text(node);
  YamlNode shown = node;
  for (size_t i = shown.keys.size(); i-- > 0;) {
    const std::string& key = shown.keys[i].text;
    if (key != "do" && key != "else" && key != "choose" && key != "unwrap_model_for_generation") continue;
    if (key == "do" || key == "else") {
      shown.keys.erase(shown.keys.begin() + static_cast<std::ptrdiff_t>(i));
      shown.items.erase(shown.items.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      shown.items[i] = YamlNode{};
    }
  }
  return short_text(shown);
}

class ProgramReader {
 public:
  ProgramReader(const YamlFile& file, const ScenarioModel& model, const std::vector<ScenarioEngine>& engines,
                const YamlNode* plans, int ranks)
      : file_(file), model_(model), engines_(engines), plans_(file, model, plans), ranks_(ranks) {}

  std::vector<Step> read_steps(const YamlNode& node, const std::string& what) {
    std::vector<Step> steps;
    for (const YamlNode& item : file_.list(node, what, "for example [{train: all}, step]").items) {
      steps.push_back(read_step(item));
    }
    return steps;
  }

 private:
  Step read_step(const YamlNode& node) {
    if (node.is_scalar()) return read_word(node);
    file_.map(node, "a step", "for example train: all, or backward");
    const YamlKey* verb_key = nullptr;
    for (const YamlKey& key : node.keys) {
      const bool is_name = find_verb(key.text) != nullptr || find_word(key.text) != nullptr;
      if (is_name && verb_key == nullptr) verb_key = &key;
    }
    if (verb_key == nullptr && node.keys.empty()) file_.fail(node.place, "an empty step");
    if (verb_key == nullptr) {
      const YamlKey& key = node.keys.front();
      file_.fail(key.place, fmt::format("unknown step '{}'", key.text), suggestion(key.text, all_names()));
    }
    const Verb* verb = find_verb(verb_key->text);
    std::vector<std::string_view> known = {verb_key->text, "engine"};
    if (verb != nullptr) known = verb->options;
    known.push_back(verb_key->text);
    file_.check_keys(node, known, fmt::format("'{}'", verb_key->text));
    Step step{.text = text_of(node), .place = node.place};
    const YamlNode& value = *node.find(verb_key->text);
    if (verb == nullptr) {
      const Word* word = find_word(verb_key->text);
      StepOp op{.kind = word->kind, .engine = read_engine(node), .overflow = word->overflow};
      step.ops = value.is_null() ? std::vector<StepOp>{std::move(op)} : ops_of_modules(op, *word, value);
      return step;
    }
    read_verb(step, verb->name, node, value);
    return step;
  }

  // `eval_mode: body.norm`: of modules instead of the engine.
  std::vector<StepOp> ops_of_modules(const StepOp& op, const Word& word, const YamlNode& value) const {
    if (op.kind != OpKind::kTrain && op.kind != OpKind::kEval)
      file_.fail(value.place, fmt::format("'{}' takes no value", word.name));
    const int root = engines_[static_cast<size_t>(op.engine)].setup.root;
    std::vector<StepOp> ops;
    const auto add = [&](const YamlNode& node) {
      const std::string& path = file_.text(node, "a module's name", "for example eval_mode: [fc1]");
      ops.push_back(op);
      ops.back().module = model_.find(root, path);
      if (ops.back().module >= 0) return;
      std::vector<std::string> known = model_.extra_of(root).child_names;
      file_.fail(node.place, fmt::format("there is no module '{}'", path), suggestion(path, known));
    };
    if (value.is_scalar()) {
      add(value);
    } else {
      for (const YamlNode& item : file_.list(value, std::string(word.name), "for example [fc1]").items)
        add(item);
    }
    if (ops.empty()) file_.fail(value.place, fmt::format("'{}' of no module", word.name));
    return ops;
  }

  // "train", "evaluate" and "forward" alone call what the model says it calls.
  Step read_word(const YamlNode& node) {
    Step step{.text = text_of(node), .place = node.place};
    const YamlNode nothing{
        .kind = YamlNode::Kind::kMap, .place = node.place, .scalar = {}, .keys = {}, .items = {}};
    const YamlNode all{.place = node.place, .scalar = {}, .keys = {}, .items = {}};
    if (const Word* word = find_word(node.scalar)) {
      step.ops = {{.kind = word->kind, .overflow = word->overflow}};
    } else if (node.scalar == "train" || node.scalar == "forward" || node.scalar == "evaluate" ||
               node.scalar == "unwrap_model_for_generation") {
      read_verb(step, node.scalar, nothing, all);
    } else if (find_verb(node.scalar) != nullptr) {
      file_.fail(node.place, fmt::format("'{}' needs a value", node.scalar));
    } else {
      file_.fail(node.place, fmt::format("unknown step '{}'", node.scalar),
                 suggestion(node.scalar, all_names()));
    }
    return step;
  }

  void read_verb(Step& step, std::string_view verb, const YamlNode& node, const YamlNode& value) {
    if (verb == "train" || verb == "forward" || verb == "evaluate")
      return read_forward(step, verb, node, value);
    if (verb == "gather") return read_gather(step, node, value);
    if (verb == "unwrap_model_for_generation") return read_unwrap(step, node, value);
    if (verb == "repeat") return read_repeat(step, node, value);
    if (verb == "when") return read_when(step, node, value);
    read_choose(step, node, value);
  }

  void read_forward(Step& step, std::string_view verb, const YamlNode& node, const YamlNode& value) {
    const int engine = read_engine(node);
    const YamlNode* direct = node.find("direct");
    const YamlNode* grad = node.find("grad");
    StepOp forward{.kind = OpKind::kForward, .engine = engine};
    if (direct != nullptr && file_.boolean(*direct, "direct")) forward.kind = OpKind::kForwardDirect;
    forward.grad_enabled = verb != "evaluate" && (grad == nullptr || file_.boolean(*grad, "grad"));
    forward.plan = plans_.read(value, engines_[static_cast<size_t>(engine)].setup.root);
    const auto op = [engine](OpKind kind) { return StepOp{.kind = kind, .engine = engine}; };
    if (verb == "train") {
      const YamlNode* overflow = node.find("overflow");
      StepOp update = op(OpKind::kStep);
      update.overflow = overflow != nullptr && file_.boolean(*overflow, "overflow");
      step.ops = {op(OpKind::kTrain), std::move(forward), op(OpKind::kBackward), std::move(update)};
    } else if (verb == "evaluate") {
      step.ops = {op(OpKind::kEval), std::move(forward), op(OpKind::kTrain)};
    } else {
      step.ops = {std::move(forward)};
    }
  }

  void read_gather(Step& step, const YamlNode& node, const YamlNode& value) {
    step.kind = Step::Kind::kBlock;
    StepOp enter{.kind = OpKind::kGatherEnter, .engine = read_engine(node)};
    const int root = engines_[static_cast<size_t>(enter.engine)].setup.root;
    if (value.is_scalar()) {
      read_params(value, root, enter.params);
    } else {
      for (const YamlNode& item : file_.list(value, "gather", "for example gather: [fc1.weight]").items) {
        read_params(item, root, enter.params);
      }
    }
    if (const YamlNode* modifier = node.find("modifier_rank")) {
      const bool none = modifier->is_null() || modifier->scalar == "None" || modifier->scalar == "none";
      if (!none) enter.modifier_rank = static_cast<int>(file_.count(*modifier, "modifier_rank", kMaxRank));
    }
    step.closing_ops = {{.kind = OpKind::kGatherExit, .engine = enter.engine}};
    step.ops = {std::move(enter)};
    step.branches.resize(1);
    if (const YamlNode* block = node.find("do")) step.branches[0].steps = read_steps(*block, "do");
  }

  // A parameter, or a module for all below it: GatheredParameters(module.parameters()).
  void read_params(const YamlNode& node, int root, std::vector<ParamRef>& params) const {
    const std::string& path = file_.text(node, "a parameter's name", "for example fc1.weight");
    if (const auto param = model_.find_param(root, path)) {
      params.push_back(*param);
      return;
    }
    const int module = path == "all" ? root : model_.find(root, path);
    if (module >= 0) {
      const std::vector<ParamRef> below = model_.params_below(module);
      if (below.empty()) file_.fail(node.place, fmt::format("'{}' has no parameters", path));
      params.insert(params.end(), below.begin(), below.end());
      return;
    }
    const size_t dot = path.rfind('.');
    const int owner = dot == std::string::npos ? root : model_.find(root, path.substr(0, dot));
    std::vector<std::string> known;
    if (owner >= 0) {
      for (const ParamSpec& param : model_.module(owner).params) known.push_back(param.name);
      for (const std::string& child : model_.extra_of(owner).child_names) known.push_back(child);
    }
    const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
    file_.fail(node.place, fmt::format("there is no parameter or module '{}'", path),
               suggestion(last, known));
  }

  void read_unwrap(Step& step, const YamlNode& node, const YamlNode& value) {
    step.kind = Step::Kind::kBlock;
    const int engine = read_engine(node);
    step.ops = {{.kind = OpKind::kUnwrapEnter, .engine = engine}};
    step.closing_ops = {{.kind = OpKind::kUnwrapExit, .engine = engine}};
    step.branches.resize(1);
    if (!value.is_null()) step.branches[0].steps = read_steps(value, "unwrap_model_for_generation");
  }

  void read_repeat(Step& step, const YamlNode& node, const YamlNode& value) {
    step.kind = Step::Kind::kRepeat;
    step.times = file_.count(value, "repeat", kMaxRepeats);
    step.branches.resize(1);
    const int64_t outer_times = std::exchange(times_, step.times);
    step.branches[0].steps = read_steps(needed(node, "do"), "do");
    times_ = outer_times;
  }

  void read_when(Step& step, const YamlNode& node, const YamlNode& value) {
    step.kind = Step::Kind::kWhen;
    static constexpr auto kKeys = std::to_array<std::string_view>({"rank", "iteration"});
    file_.check_keys(file_.map(value, "when", "for example when: {rank: [1]}"), kKeys, "when");
    if (value.keys.empty()) file_.fail(value.place, "when asks for nothing", "for example when: {rank: [1]}");
    if (const YamlNode* ranks = value.find("rank")) step.ranks = read_counts(*ranks, "rank");
    if (const YamlNode* iterations = value.find("iteration"))
      step.iterations = read_counts(*iterations, "iteration");
    check_taken(step, node, value);
    step.branches.resize(2);
    step.branches[0].steps = read_steps(needed(node, "do"), "do");
    if (const YamlNode* otherwise = node.find("else"))
      step.branches[1].steps = read_steps(*otherwise, "else");
  }

  // Refuses a branch that no rank ever takes.
  void check_taken(const Step& step, const YamlNode& node, const YamlNode& value) const {
    const auto count_from = [](const std::vector<int64_t>& wanted, int64_t first, int64_t last) {
      const std::set<int64_t> numbers(wanted.begin(), wanted.end());
      return std::ranges::count_if(numbers, [&](int64_t at) { return first <= at && at <= last; });
    };
    if (!step.ranks.empty() && count_from(step.ranks, 0, ranks_ - 1) == 0) {
      file_.fail(value.find("rank")->place,
                 fmt::format("no rank takes this branch: rank {} of {} rank(s)", step.ranks.front(), ranks_),
                 "ranks count from 0; 'ranks:' at the top says how many there are");
    }
    if (!step.iterations.empty() && times_ == 0) {
      file_.fail(value.find("iteration")->place, "no rank takes this branch: there is no repeat around it",
                 "iterations are those of the nearest repeat");
    }
    if (!step.iterations.empty() && count_from(step.iterations, 1, times_) == 0) {
      file_.fail(
          value.find("iteration")->place,
          fmt::format("no rank takes this branch: iteration {} of {}", step.iterations.front(), times_),
          "iterations count from 1");
    }
    const bool every_rank = step.ranks.empty() || count_from(step.ranks, 0, ranks_ - 1) == ranks_;
    const bool every_iteration = step.iterations.empty() || count_from(step.iterations, 1, times_) == times_;
    if (const YamlKey* otherwise = node.find_key("else");
        otherwise != nullptr && every_rank && every_iteration)
      file_.fail(otherwise->place, "no rank takes 'else': every rank takes the other branch", "leave it out");
  }

  void read_choose(Step& step, const YamlNode& node, const YamlNode& value) {
    step.kind = Step::Kind::kChoose;
    for (const YamlNode& option :
         file_.list(value, "choose", "a list of step lists: [[step], [backward, step]]").items) {
      StepBranch branch;
      const YamlNode* steps = &option;
      if (option.is_map()) {
        static constexpr auto kKeys = std::to_array<std::string_view>({"weight", "do"});
        file_.check_keys(option, kKeys, "an option");
        steps = &needed(option, "do");
        if (const YamlNode* weight = option.find("weight"))
          branch.weight = file_.count(*weight, "weight", kMaxWeight);
      }
      branch.steps = read_steps(*steps, "an option");
      step.branches.push_back(std::move(branch));
    }
    const bool any =
        std::ranges::any_of(step.branches, [](const StepBranch& branch) { return branch.weight > 0; });
    if (!any) file_.fail(value.place, "choose has nothing to choose from", "a list of step lists");
    if (const YamlNode* per_rank = node.find("per_rank"))
      step.per_rank = file_.boolean(*per_rank, "per_rank");
  }

  const YamlNode& needed(const YamlNode& node, std::string_view key) const {
    const YamlNode* value = node.find(key);
    if (value == nullptr)
      file_.fail(node.place, fmt::format("'{}' is missing", key), fmt::format("{}: [train, step]", key));
    return *value;
  }

  std::vector<int64_t> read_counts(const YamlNode& node, const std::string& what) const {
    if (node.is_scalar()) return {file_.count(node, what, kMaxRank)};
    std::vector<int64_t> counts;
    for (const YamlNode& item : file_.list(node, what, "for example [0, 2]").items) {
      counts.push_back(file_.count(item, what, kMaxRank));
    }
    if (counts.empty()) file_.fail(node.place, what + " is empty", "for example [0, 2]");
    return counts;
  }

  int read_engine(const YamlNode& node) const {
    const YamlNode* engine = node.find("engine");
    if (engine == nullptr) return 0;
    const std::string& name = file_.text(*engine, "engine");
    std::vector<std::string> known;
    for (size_t i = 0; i < engines_.size(); ++i) {
      if (name == engines_[i].name || name == std::to_string(i)) return static_cast<int>(i);
      known.push_back(engines_[i].name);
    }
    file_.fail(engine->place, fmt::format("there is no engine '{}'", name), suggestion(name, known));
  }

  const YamlFile& file_;
  const ScenarioModel& model_;
  const std::vector<ScenarioEngine>& engines_;
  PlanReader plans_;
  int ranks_;
  int64_t times_ = 0;  // of the nearest repeat around the step being read; 0: there is none
};

}  // namespace

std::vector<Step> read_program(const YamlFile& file, const YamlNode& node, const ScenarioModel& model,
                               const std::vector<ScenarioEngine>& engines, const YamlNode* plans, int ranks) {
  std::vector<Step> steps = ProgramReader(file, model, engines, plans, ranks).read_steps(node, "program");
  if (steps.empty())
    file.fail(node.place, "the program is empty", "for example program: [{repeat: 2, do: [train]}]");
  return steps;
}

}  // namespace zero3::sim
