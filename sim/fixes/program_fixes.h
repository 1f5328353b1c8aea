// Changes of a program that are known to cure something. Each takes any program and hands back the changed one, or
// nothing where there is nothing that it changes. What each is for, and who found it, is in sim/fixes/catalogue.cpp.
#pragma once

#include <optional>

#include "sim/program.h"

namespace zero3::sim {

// engine.empty_partition_cache() before each save, before each optimizer step, before each forward of a model.
std::optional<Experiment> empty_cache_before_saves(const Experiment& experiment);
std::optional<Experiment> empty_cache_before_steps(const Experiment& experiment);
std::optional<Experiment> empty_cache_before_forwards(const Experiment& experiment);
// engine.train() before a backward in evaluation mode.
std::optional<Experiment> train_before_backward(const Experiment& experiment);
// engine.eval() before a forward without gradients in train mode, engine.train() after it.
std::optional<Experiment> eval_around_no_grad(const Experiment& experiment);
// What the model is called with requires a gradient.
std::optional<Experiment> input_requires_grad(const Experiment& experiment);
// Each param once in a GatheredParameters.
std::optional<Experiment> gather_each_once(const Experiment& experiment);
// What a context inside another one gathers is gathered by the outer one.
std::optional<Experiment> gather_outside(const Experiment& experiment);
// save_checkpoint for save_16bit_model.
std::optional<Experiment> save_sharded(const Experiment& experiment);
// _zero3_consolidated_16bit_state_dict for the save of an engine that has no optimizer.
std::optional<Experiment> consolidate_without_optimizer(const Experiment& experiment);
// reload_states before what trains or gathers.
std::optional<Experiment> reload_states_before_use(const Experiment& experiment);

// Saves that stand where a step is under way go behind it, or before it; those behind evaluations go before them.
std::optional<Experiment> saves_after_step(const Experiment& experiment);
std::optional<Experiment> saves_before_step(const Experiment& experiment);
std::optional<Experiment> saves_before_evaluation(const Experiment& experiment);
std::optional<Experiment> evaluations_after_step(const Experiment& experiment);

// Calls that a branch leaves out are made, and nobody uses what they return.
std::optional<Experiment> discard_skipped(const Experiment& experiment);
// Calls that a branch leaves out are made, and what they return is used: multiplied by zero, say.
std::optional<Experiment> use_skipped(const Experiment& experiment);
// An evaluation with nothing left out before each forward that branches, before each save.
std::optional<Experiment> prologue_before_branches(const Experiment& experiment);
std::optional<Experiment> prologue_before_saves(const Experiment& experiment);
// Modules that are called without the root are called through it.
std::optional<Experiment> call_through_engine(const Experiment& experiment);
// Checkpointed regions recompute in this way.
std::optional<Experiment> checkpoint_non_reentrant(const Experiment& experiment);
std::optional<Experiment> checkpoint_reentrant(const Experiment& experiment);
std::optional<Experiment> no_checkpointing(const Experiment& experiment);
// All ranks do what the rank with the longest program does; that with most module calls among equals.
std::optional<Experiment> same_on_every_rank(const Experiment& experiment);

}  // namespace zero3::sim
