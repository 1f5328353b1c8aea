// What a release does, as named flags. The coordinators and the engine ask these flags and never compare versions.
//
// The table of changes in behaviour.cpp is the one place where a version decides anything: each row is a release, the
// flag it changed, and the pull request or commit that changed it (deepspeedai/DeepSpeed).
#pragma once

#include <string_view>
#include <vector>

#include "coordinator/release.h"

namespace zero3 {

enum class Coordinator { kPrefetch, kPartitionedParameter };  // v1 (stage3.py to v0.5.10), v2 (#1453)
enum class RegistryHome { kCoordinator, kModule, kModulePerMode };
enum class ForwardStartReset { kNone, kAfterRootPreHook, kBeforeRootPreHook };
enum class OnInflight { kIgnore, kRaise, kClean, kWaitAndRelease };
enum class InvalidationLine { kNone, kDebugLog, kPrinted, kPrintedIfAsked };
enum class InitialMode { kRecordOnce, kRecord, kInvalid };
enum class ParamTrace { kAtPreHook, kAtPostForward, kAtReset };
enum class TraceOverrun { kTracingError, kIndexError, kInvalidate };
enum class PreBackwardDedup { kFlag, kCount };
enum class PartitionAll { kEndOfBackward, kStartOfStep };
enum class LeafReduction { kPerParam, kInputHooks, kFullBackwardHook };
enum class FreeActive { kUnchecked, kAssert, kRuntimeError };
enum class Availability { kNever, kAtReset, kAtReleaseAll };
enum class SummaryForm { kBoundMethod, kDicts };
// Whether save_checkpoint meets for each rank that makes its folder, and in which process group.
enum class FilesBarrier { kNone, kWorld, kOwnGroup };

struct Behaviour {
  // Trace and scope
  Coordinator coordinator = Coordinator::kPrefetch;
  bool coordinator_per_mode = false;      // one for training, one for evaluation
  bool backward_uses_train_mode = false;  // backward hooks always take the training coordinator
  RegistryHome registry_home = RegistryHome::kCoordinator;
  InitialMode initial_mode = InitialMode::kRecordOnce;
  bool mismatch_invalidates = false;
  bool invalidation_cleans_inflight = false;
  bool invalidation_clears_step_deque = false;
  InvalidationLine invalidation_line = InvalidationLine::kNone;  // on rank 0; a debug log is not shown
  TraceOverrun trace_overrun = TraceOverrun::kIndexError;
  ParamTrace param_trace = ParamTrace::kAtReset;
  bool hook_registration_invalidates = false;

  // Reset points
  ForwardStartReset forward_start_reset = ForwardStartReset::kNone;
  bool no_grad_forward_hook_reset = false;  // at the end of the root's forward
  bool no_grad_engine_reset = true;         // again in engine.forward
  bool backward_end_reset = false;
  bool step_reset = true;  // optimizer _pre_step
  OnInflight reset_on_inflight = OnInflight::kIgnore;

  // Prefetch and release
  bool prefetch_requires_training = false;
  bool prefetch_takes_available = false;  // available params are chosen and counted, not gathered
  bool zero_bucket_disables = false;
  bool keeps_later_fetched_step = false;  // max(old, new) of the step that a param was fetched for
  bool retains_skipped_use = false;
  bool reuse_loop_stops_at_distance = false;     // >= where it was >
  bool zero_reuse_distance_never_keeps = false;  // v1: max_reuse_distance 0 is not compared at all
  bool release_iterates_set = false;
  bool gather_needs_missing_partition = false;  // a fetch or a prefetch of no elements gathers nothing
  bool gathers_in_groups = false;               // quantised params apart from the others
  Availability n_available_zeroed = Availability::kNever;
  bool active_backward_stack = false;  // leftovers drained, recompute attributed
  bool leaf_fetch_lock = false;

  // Engine
  bool gathered_singly = true;  // v1 fetch gathers asynchronously param by param
  bool world_one_skips_gather = false;
  bool handles_are_grouped = false;  // a coalesced gather has one handle a dtype, under a handle of handles
  PreBackwardDedup pre_backward_dedup = PreBackwardDedup::kFlag;
  bool wraps_containers = false;  // tensors in lists and dicts too, else in tuples alone
  bool backward_fn_made_once = false;
  bool grads_remaining_initialised_once = false;
  bool backward_needs_train_mode = false;
  bool leaf_modules = false;
  bool default_leaf_classes = false;  // some classes of Hugging Face are leaf modules without being asked
  LeafReduction leaf_reduction = LeafReduction::kPerParam;  // when a leaf module's gradients are reduced
  bool linear_is_wrapped = false;  // torch.nn.functional.linear is DeepSpeed's own autograd function
  PartitionAll partition_all = PartitionAll::kEndOfBackward;
  bool persistence_inclusive = false;  // numel <= threshold
  bool model_persistence_threshold = false;
  bool init_marks_persistent = false;  // zero.Init, too: within the threshold divided by the world size
  FreeActive free_active = FreeActive::kUnchecked;

  bool overflow_checked_in_fp16_only = false;  // else in every precision
  bool empty_params_are_optimized = true;  // params without elements, as any other that requires a gradient
  bool overflow_read_from_buffer = false;  // of all gradients at the step, not from each as it arrives
  bool optimizer_steps_at_start = true;    // with gradients of 0, to make its states: Adam counts it
  bool gradients_clipped_by_default = false;  // to a norm of 1, where gradient_clipping is not given
  bool invalid_norm_is_overflow = false;      // of the gradients together, in every precision

  // Save, gather
  bool has_save_16bit = false;
  bool save_16bit_prologue = false;
  bool save_16bit_modifier = false;  // gathers with modifier_rank=0, else None
  bool load_prologue = false;
  int partitioned_data_numel = 1;         // elements that param.data keeps when partitioned
  bool prologue_only_if_present = false;  // hasattr-guarded for the offload-only engine
  bool offload_is_optimizer = false;      // an engine without optimizer has the offload object in its place
  bool optimizer_less_engine = false;
  bool gradient_buffer_needs_optimizer = false;  // an engine without optimizer has no bucket buffer
  bool boundary_asks_checkpoint_engine = false;  // step asks it first whether it is decoupled
  bool sets_optimizer_boundary = false;  // backward calls a method of the optimizer about the boundary
  std::string_view stage3_class = "DeepSpeedZeroOptimizer_Stage3";
  bool contiguous_gradients =
      false;                       // by default: v1 then fails on a backward that gives no param a gradient
  bool backward_in_parts = false;  // _do_optimizer_backward and _backward_epilogue
  bool torch_style_backward = false;  // engine.backward is loss.backward() between hooks
  bool engine_has_getattr = false;
  OnInflight partition_all_on_inflight = OnInflight::kIgnore;
  bool gathered_always_partitions = true;  // v0.3.12-v0.3.13: whatever the modifier rank
  bool gathered_none_partitions = false;
  bool gathered_sorts = false;
  bool gathered_takes_lists = false;
  bool nested_gather_check = false;
  bool has_empty_partition_cache = false;
  bool has_unwrap = false;
  bool has_offload_states = false;
  bool knows_allgather_sequential =
      false;  // one collective a param; with an optimizer a prefetch bucket of 1
  bool single_handle_waits_again =
      true;  // AllGatherHandle.wait() makes its param AVAILABLE each time it is called

  // Ranks
  bool rank_checks_always = false;  // all three at every incomplete reset, not only the finalising one
  bool rank_check_lengths = false;
  // The engine's clone of the world group, in which collectives keep a sequence of their own, carries:
  bool own_group_for_norms = true;      // the norm of the gradients (that of overflow is always there)
  bool own_group_for_grads = false;     // the gradients
  bool rank_zero_makes_folder = false;  // save_checkpoint's: the others go on to the barrier
  bool checkpoint_barriers = false;     // save_checkpoint has one at both ends
  FilesBarrier files_barrier = FilesBarrier::kWorld;

  // Texts
  std::string_view partition_word = "parititon";
  SummaryForm inflight_form = SummaryForm::kBoundMethod;
  bool summary_has_partition_shape = false;
  bool tracing_error_names_module = false;
  bool tracing_error_debug_names = false;
};

// The flags of a release. Precondition: is_known(release).
Behaviour behaviour_of(const Release& release);

// The row of the table that set a flag.
struct Change {
  Release since;
  std::string_view flag;   // name of the member of Behaviour
  std::string_view value;  // as people read it
  void (*apply)(Behaviour&);
  std::string_view source;  // pull request (commit)
};

// Every row up to and including the release, oldest first; the last row of a flag holds.
std::vector<Change> changes_until(const Release& release);

// Eras of reference/eras.md: "A1" ... "C9", "B0" for the untagged master.
std::string_view era_of(const Release& release);

}  // namespace zero3
