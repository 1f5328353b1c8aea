// The words of the run file for ops and checkpointing, both ways.
#pragma once

#include <array>
#include <string_view>

#include "sim/program.h"

namespace zero3::sim {

struct OpWord {
  OpKind kind;
  std::string_view word;
};
// kForwardDirect is a "forward" with "direct".
inline constexpr auto kOpWords = std::to_array<OpWord>({
    {OpKind::kForward, "forward"},
    {OpKind::kForwardDirect, "forward"},
    {OpKind::kBackward, "backward"},
    {OpKind::kStep, "step"},
    {OpKind::kTrain, "train"},
    {OpKind::kEval, "eval"},
    {OpKind::kSave16bit, "save_16bit_model"},
    {OpKind::kConsolidate, "consolidated_16bit_state_dict"},
    {OpKind::kSaveCheckpoint, "save_checkpoint"},
    {OpKind::kLoadCheckpoint, "load_checkpoint"},
    {OpKind::kEmptyPartitionCache, "empty_partition_cache"},
    {OpKind::kOffloadStates, "offload_states"},
    {OpKind::kReloadStates, "reload_states"},
    {OpKind::kRegisterHooksAgain, "register_hooks_again"},
    {OpKind::kGatherEnter, "gather"},
    {OpKind::kGatherExit, "gather_exit"},
    {OpKind::kUnwrapEnter, "unwrap"},
    {OpKind::kUnwrapExit, "unwrap_exit"},
});

struct CheckpointWord {
  Checkpointing checkpointing;
  std::string_view word;
};
inline constexpr auto kCheckpointWords = std::to_array<CheckpointWord>({
    {Checkpointing::kReentrant, "reentrant"},
    {Checkpointing::kNonReentrant, "non-reentrant"},
    {Checkpointing::kWholeRecompute, "whole-recompute"},
});

}  // namespace zero3::sim
