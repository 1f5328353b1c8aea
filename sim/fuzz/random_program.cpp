#include "sim/fuzz/random_program.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "coordinator/behaviour.h"
#include "sim/fuzz/random_plan.h"

namespace zero3::sim {
namespace {

using Calls = std::vector<PlannedCall>;

// The statements that are drawn, each with its weight; named as in the short form where that has them.
enum class Token {
  kTrain,           // t
  kTrainOverflow,   // to
  kTrainNoStep,     // tb
  kForward,         // f
  kBackward,        // b
  kStep,            // s
  kOverflowStep,    // so
  kForwardNoGrad,   // F
  kEvaluate,        // e
  kEvaluateOnly,    // eo
  kEvalWithGrad,    // E
  kTrainMode,       // T
  kEvalMode,        // ev
  kSave16bit,       // w
  kConsolidate,     // sd
  kSaveCheckpoint,  // c
  kLoadCheckpoint,  // l
  kEmptyCache,      // x
  kGather,          // g
  kGatherModify,    // gm
  kUnwrap,          // r
  kUnwrapForward,   // u
  kDirect,          // sub
  kOffload,         // os
  kReload,          // rs
  kRegisterAgain,   // hooks
  kGatherBlock,     // with GatheredParameters: a statement inside
  kUnwrapBlock,     // with unwrap_model_for_generation: a statement inside
};

struct Weight {
  Token token;
  int weight;
};

constexpr auto kWithOptimizer = std::to_array<Weight>(
    {{Token::kTrain, 120},         {Token::kTrainOverflow, 6},   {Token::kTrainNoStep, 10},
     {Token::kForward, 10},        {Token::kBackward, 10},       {Token::kStep, 10},
     {Token::kOverflowStep, 2},    {Token::kForwardNoGrad, 20},  {Token::kEvaluate, 40},
     {Token::kEvaluateOnly, 10},   {Token::kEvalWithGrad, 10},   {Token::kTrainMode, 10},
     {Token::kEvalMode, 5},        {Token::kSave16bit, 20},      {Token::kConsolidate, 10},
     {Token::kSaveCheckpoint, 10}, {Token::kLoadCheckpoint, 10}, {Token::kEmptyCache, 10},
     {Token::kGather, 20},         {Token::kGatherModify, 20},   {Token::kUnwrap, 10},
     {Token::kUnwrapForward, 10},  {Token::kDirect, 10},         {Token::kOffload, 10},
     {Token::kReload, 4},          {Token::kRegisterAgain, 5},   {Token::kGatherBlock, 8},
     {Token::kUnwrapBlock, 5}});

constexpr auto kWithoutOptimizer = std::to_array<Weight>({{Token::kEvaluateOnly, 60},
                                                          {Token::kGather, 10},
                                                          {Token::kGatherModify, 10},
                                                          {Token::kConsolidate, 10},
                                                          {Token::kSave16bit, 10},
                                                          {Token::kTrain, 10},
                                                          {Token::kForwardNoGrad, 10},
                                                          {Token::kEmptyCache, 10},
                                                          {Token::kSaveCheckpoint, 10},
                                                          {Token::kForward, 10},
                                                          {Token::kStep, 10},
                                                          {Token::kUnwrap, 10},
                                                          {Token::kUnwrapForward, 10},
                                                          {Token::kEvalWithGrad, 10}});

bool exists(Token token, const Behaviour& behaviour) {
  switch (token) {
    case Token::kSave16bit:
    case Token::kConsolidate: return behaviour.has_save_16bit;
    case Token::kEmptyCache: return behaviour.has_empty_partition_cache;
    case Token::kOffload:
    case Token::kReload: return behaviour.has_offload_states;
    case Token::kUnwrap:
    case Token::kUnwrapForward:
    case Token::kUnwrapBlock:
    case Token::kRegisterAgain: return behaviour.has_unwrap;
    default: return true;
  }
}

// How much plans differ from the model's own order: in half of the statements not at all.
constexpr auto kMutations = std::to_array({0, 0, 150, 400});

class ProgramMaker {
 public:
  ProgramMaker(const RandomModel& model, const FuzzTarget& target, int ranks, Draws draws)
      : model_(model), behaviour_(behaviour_of(target.release)), ranks_(ranks), draws_(draws) {}

  Program make() {
    usual_ = random_plan(model_, draws_.chance(model_.flat ? 700 : 800) ? 0 : 200, draws_);
    begin();
    for (int left = draws_.between(3, 10); left > 0; --left) {
      const Token token = draw();
      add(token, plan());
      follow_up(token);
    }
    return std::move(program_);
  }

 private:
  void begin() {
    if (!model_.with_optimizer) {
      for (int left = draws_.between(1, 2); left > 0; --left) add(Token::kEvaluateOnly, usual_);
      return;
    }
    const int first = draws_.below(8);
    const Token token = first < 6 ? Token::kTrain : first == 6 ? Token::kEvaluate : Token::kTrainNoStep;
    static constexpr auto kTimes = std::to_array({1, 2, 2, 2, 3, 4});
    for (int left = draws_.pick(kTimes); left > 0; --left) add(token, usual_);
  }

  Calls plan() {
    const int mutation = draws_.pick(kMutations);
    return mutation == 0 ? usual_ : random_plan(model_, mutation, draws_);
  }

  Token draw() {
    if (model_.with_optimizer) return draw_from(kWithOptimizer);
    return draw_from(kWithoutOptimizer);
  }

  template <typename Weights>
  Token draw_from(const Weights& weights) {
    int total = 0;
    for (const Weight& item : weights) total += exists(item.token, behaviour_) ? item.weight : 0;
    int at = draws_.below(total);
    for (const Weight& item : weights) {
      if (!exists(item.token, behaviour_)) continue;
      if (at < item.weight) return item.token;
      at -= item.weight;
    }
    return weights.front().token;
  }

  // What scripts do next, so that passes are now and then finished in an odd way.
  void follow_up(Token token) {
    if (!model_.with_optimizer || !draws_.chance(600)) return;
    static constexpr auto kAfterEval = std::to_array({Token::kTrainMode, Token::kSave16bit, Token::kTrain});
    static constexpr auto kAfterEvalWithGrad =
        std::to_array({Token::kTrainMode, Token::kBackward, Token::kSave16bit, Token::kGatherModify});
    static constexpr auto kAfterForward = std::to_array(
        {Token::kBackward, Token::kBackward, Token::kSave16bit, Token::kSaveCheckpoint, Token::kEvaluate});
    static constexpr auto kAfterBackward = std::to_array({Token::kStep, Token::kStep, Token::kSave16bit});
    switch (token) {
      case Token::kEvaluateOnly: add(draws_.pick(kAfterEval), usual_); break;
      case Token::kEvalWithGrad: add(draws_.pick(kAfterEvalWithGrad), usual_); break;
      case Token::kTrainNoStep: add(draws_.pick(kAfterBackward), usual_); break;
      case Token::kForward: {
        const Token next = draws_.pick(kAfterForward);
        add(next, usual_);
        if (next == Token::kBackward && draws_.chance(600)) add(Token::kStep, usual_);
        break;
      }
      case Token::kDirect:
        if (draws_.chance(500)) add(Token::kBackward, usual_);
        break;
      case Token::kOffload:
        if (draws_.chance(800)) add(Token::kReload, usual_);
        break;
      default: break;
    }
  }

  void add_statement(const std::string& text, std::vector<Op> ops) {
    program_.push_back({text, {}, std::move(ops)});
  }

  void add_forward(const char* token, const Calls& plan, std::vector<Op> before, Op forward,
                   std::vector<Op> after) {
    could_go_backward_ |= forward.grad_enabled;
    forward.plan = plan;
    before.push_back(std::move(forward));
    std::ranges::move(after, std::back_inserter(before));
    add_statement(std::string(token) + ":" + plan_text(plan, model_.spec), std::move(before));
  }

  void add(Token token, const Calls& plan) {
    if (!exists(token, behaviour_)) return;
    if (add_pass(token, plan)) return;
    switch (token) {
      case Token::kBackward:
        if (could_go_backward_) add_statement("b", {{.kind = OpKind::kBackward}});
        break;
      case Token::kLoadCheckpoint:
      case Token::kSaveCheckpoint: {
        const bool load = token == Token::kLoadCheckpoint && saved_;
        add_statement(load ? "l" : "c", {{.kind = load ? OpKind::kLoadCheckpoint : OpKind::kSaveCheckpoint}});
        saved_ = true;
        break;
      }
      case Token::kGather: add_gather(-1, false); break;
      case Token::kGatherModify: add_gather(draws_.below(ranks_), false); break;
      case Token::kGatherBlock: add_gather(draws_.chance(500) ? -1 : draws_.below(ranks_), true); break;
      case Token::kUnwrapBlock: add_unwrap_block(); break;
      case Token::kUnwrap:
        add_statement("r", {{.kind = OpKind::kUnwrapEnter}, {.kind = OpKind::kUnwrapExit}});
        break;
      default: add_word(token);
    }
  }

  bool add_pass(Token token, const Calls& plan) {
    const Op forward{.kind = OpKind::kForward};
    const Op without_grad{.kind = OpKind::kForward, .grad_enabled = false};
    const Op train{.kind = OpKind::kTrain};
    const Op eval{.kind = OpKind::kEval};
    const Op backward{.kind = OpKind::kBackward};
    const Op step{.kind = OpKind::kStep};
    const Op overflowing_step{.kind = OpKind::kStep, .overflow = true};
    switch (token) {
      case Token::kTrain: add_forward("t", plan, {train}, forward, {backward, step}); return true;
      case Token::kTrainOverflow:
        add_forward("to", plan, {train}, forward, {backward, overflowing_step});
        return true;
      case Token::kTrainNoStep: add_forward("tb", plan, {train}, forward, {backward}); return true;
      case Token::kForward: add_forward("f", plan, {train}, forward, {}); return true;
      case Token::kForwardNoGrad: add_forward("F", plan, {train}, without_grad, {}); return true;
      case Token::kEvaluate: add_forward("e", plan, {eval}, without_grad, {train}); return true;
      case Token::kEvaluateOnly: add_forward("eo", plan, {eval}, without_grad, {}); return true;
      case Token::kEvalWithGrad: add_forward("E", plan, {eval}, forward, {}); return true;
      case Token::kDirect: {
        Op direct = forward;
        direct.kind = OpKind::kForwardDirect;
        const bool could = could_go_backward_;
        add_forward("sub", plan, {}, direct, {});
        could_go_backward_ = could;  // what it returns is dropped
        return true;
      }
      case Token::kUnwrapForward:
        add_forward("u", plan, {{.kind = OpKind::kUnwrapEnter}}, without_grad,
                    {{.kind = OpKind::kUnwrapExit}});
        return true;
      default: return false;
    }
  }

  void add_word(Token token) {
    switch (token) {
      case Token::kStep: add_statement("s", {{.kind = OpKind::kStep}}); break;
      case Token::kOverflowStep: add_statement("so", {{.kind = OpKind::kStep, .overflow = true}}); break;
      case Token::kTrainMode: add_statement("T", {{.kind = OpKind::kTrain}}); break;
      case Token::kEvalMode: add_statement("ev", {{.kind = OpKind::kEval}}); break;
      case Token::kSave16bit: add_statement("w", {{.kind = OpKind::kSave16bit}}); break;
      case Token::kConsolidate: add_statement("sd", {{.kind = OpKind::kConsolidate}}); break;
      case Token::kEmptyCache: add_statement("x", {{.kind = OpKind::kEmptyPartitionCache}}); break;
      case Token::kOffload: add_statement("os", {{.kind = OpKind::kOffloadStates}}); break;
      case Token::kReload: add_statement("rs", {{.kind = OpKind::kReloadStates}}); break;
      case Token::kRegisterAgain: add_statement("hooks", {{.kind = OpKind::kRegisterHooksAgain}}); break;
      default: break;
    }
  }

  // A step inside a context: a pass, a save, another gather.
  void add_inner() {
    static constexpr auto kInner = std::to_array({Token::kTrain, Token::kEvaluate, Token::kForwardNoGrad,
                                                  Token::kSave16bit, Token::kGather, Token::kGatherModify});
    for (int left = draws_.between(0, 2); left > 0; --left) {
      const Calls called = plan();  // a statement of its own: arguments are evaluated in the compiler's order
      add(draws_.pick(kInner), called);
    }
  }

  void add_gather(int modifier_rank, bool block) {
    static constexpr auto kCounts = std::to_array({1, 1, 2, 3});
    const std::vector<ParamRef> known = own_params(model_.spec);
    Op enter{.kind = OpKind::kGatherEnter, .modifier_rank = modifier_rank};
    std::string text;
    for (int left = behaviour_.gathered_takes_lists ? draws_.pick(kCounts) : 1; left > 0; --left) {
      const ParamRef param = draws_.pick(known);
      enter.params.push_back(param);
      const ModuleSpec& owner = model_.spec.modules[static_cast<size_t>(param.module)];
      text += (text.empty() ? ":" : ",") + owner.name.substr(owner.name.rfind('.') + 1) + "." +
              owner.params[static_cast<size_t>(param.param)].name;
    }
    text = (modifier_rank < 0 ? "g" : "gm") + text;
    const Op exit{.kind = OpKind::kGatherExit};
    if (!block) {
      add_statement(text, {enter, exit});
      return;
    }
    add_statement("with " + text, {enter});
    add_inner();
    add_statement("end of " + text, {exit});
  }

  void add_unwrap_block() {
    add_statement("with r", {{.kind = OpKind::kUnwrapEnter}});
    add_inner();
    add_statement("end of r", {{.kind = OpKind::kUnwrapExit}});
  }

  const RandomModel& model_;
  Behaviour behaviour_;
  int ranks_;
  Draws draws_;
  Calls usual_;
  Program program_;
  bool could_go_backward_ = false;
  bool saved_ = false;
};

}  // namespace

Program random_program(const RandomModel& model, const FuzzTarget& target, int ranks, Draws draws) {
  return ProgramMaker(model, target, ranks, draws).make();
}

}  // namespace zero3::sim
