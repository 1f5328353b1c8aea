#include "sim/rank_runner.h"

namespace zero3::sim {

RankRunner::RankRunner(const Experiment& experiment, const Behaviour& behaviour, Communicator& communicator,
                       Observer* observer, uint64_t set_order_seed, RankTensors* tensors)
    : process_(set_order_seed), model_(experiment.model), tensors_(tensors) {
  if (tensors_ != nullptr) tensors_->begin_run(model_);
  for (const EngineSetup& setup : experiment.engines) {
    engines_.push_back(std::make_unique<Engine>(
        process_, model_.module(setup.root), behaviour, experiment.settings, communicator, observer,
        Engine::Options{setup.with_optimizer, experiment.input_requires_grad}, tensors));
  }
}

Raised RankRunner::run(const Statement& statement, size_t index) {
  for (const Op& op : statement.ops) {
    if (Raised raised = run_op(op)) return raised;
    if (tensors_ != nullptr) tensors_->ran(op, index);
  }
  return nullptr;
}

Raised RankRunner::run_op(const Op& op) {
  Engine& engine = *engines_[static_cast<size_t>(op.engine)];
  switch (op.kind) {
    case OpKind::kForward: return engine.forward(calls(op.plan), op.grad_enabled, op.root_flow);
    case OpKind::kForwardDirect: return engine.forward_direct(calls(op.plan), op.grad_enabled);
    case OpKind::kBackward: return engine.backward();
    case OpKind::kStep: return engine.step(op.overflow);
    case OpKind::kTrain:
    case OpKind::kEval: set_training(engine, op); return nullptr;
    case OpKind::kSave16bit: return engine.save_16bit_model();
    case OpKind::kConsolidate: return engine.consolidated_16bit_state_dict();
    case OpKind::kSaveCheckpoint: return engine.save_checkpoint();
    case OpKind::kLoadCheckpoint: return engine.load_checkpoint();
    case OpKind::kEmptyPartitionCache: return engine.empty_partition_cache();
    case OpKind::kOffloadStates: return engine.offload_states();
    case OpKind::kReloadStates: return engine.reload_states();
    case OpKind::kGatherEnter: {
      std::vector<Param*> params;
      for (const ParamRef& ref : op.params) params.push_back(model_.param(ref.module, ref.param));
      return engine.gather_enter(std::move(params), op.modifier_rank);
    }
    case OpKind::kGatherExit: return engine.gather_exit();
    case OpKind::kUnwrapEnter: return engine.unwrap_enter();
    case OpKind::kUnwrapExit: return engine.unwrap_exit();
    case OpKind::kRegisterHooksAgain: return engine.register_hooks_again();
  }
  return nullptr;
}

void RankRunner::set_training(Engine& engine, const Op& op) {
  const bool mode = op.kind == OpKind::kTrain;
  if (op.module < 0) return engine.train(mode);
  for (Module* module : modules_of(model_.module(op.module))) module->training = mode;
}

std::vector<Call> RankRunner::calls(const std::vector<PlannedCall>& plan) {
  std::vector<Call> made;
  for (const PlannedCall& planned : plan) {
    if (planned.read) {
      made.push_back({.read = model_.param(planned.read->module, planned.read->param)});
      continue;
    }
    made.push_back(
        {.module = planned.module == PlannedCall::kNoModule ? nullptr : &model_.module(planned.module),
         .children = calls(planned.children),
         .checkpointing = planned.checkpointing,
         .detach_input = planned.detach_input,
         .discard_output = planned.discard_output,
         .flow = planned.flow,
         .stops = planned.stops});
  }
  return made;
}

}  // namespace zero3::sim
