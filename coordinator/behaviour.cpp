#include "coordinator/behaviour.h"

#include <array>

namespace zero3 {
namespace {

// SET(flag, value): the name, the value as text and the code that sets it, written once.
#define SET(flag, ...) #flag, #__VA_ARGS__, [](Behaviour & b) { b.flag = __VA_ARGS__; }

// Oldest first. A row holds until a later row of the same flag.
constexpr auto kChanges = std::to_array<Change>({
    // What ZeRO-3 came with: every flag, so that each has its row.
    {{0, 3, 12}, SET(coordinator, Coordinator::kPrefetch), "#834 (599258f97)"},
    {{0, 3, 12}, SET(coordinator_per_mode, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(backward_uses_train_mode, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(registry_home, RegistryHome::kCoordinator), "#834 (599258f97)"},
    {{0, 3, 12}, SET(initial_mode, InitialMode::kRecordOnce), "#834 (599258f97)"},
    {{0, 3, 12}, SET(mismatch_invalidates, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(invalidation_cleans_inflight, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(invalidation_clears_step_deque, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(invalidation_line, InvalidationLine::kNone), "#834 (599258f97)"},
    {{0, 3, 12}, SET(trace_overrun, TraceOverrun::kIndexError), "#834 (599258f97)"},
    {{0, 3, 12}, SET(param_trace, ParamTrace::kAtReset), "#834 (599258f97)"},
    {{0, 3, 12}, SET(hook_registration_invalidates, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(forward_start_reset, ForwardStartReset::kNone), "#834 (599258f97)"},
    {{0, 3, 12}, SET(no_grad_forward_hook_reset, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(no_grad_engine_reset, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(backward_end_reset, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(step_reset, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(reset_on_inflight, OnInflight::kIgnore), "#834 (599258f97)"},
    {{0, 3, 12}, SET(prefetch_requires_training, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(prefetch_takes_available, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(zero_bucket_disables, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(keeps_later_fetched_step, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(retains_skipped_use, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(reuse_loop_stops_at_distance, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(zero_reuse_distance_never_keeps, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(release_iterates_set, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathers_in_groups, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gather_needs_missing_partition, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(n_available_zeroed, Availability::kNever), "#834 (599258f97)"},
    {{0, 3, 12}, SET(active_backward_stack, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(leaf_fetch_lock, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathered_singly, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(world_one_skips_gather, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(pre_backward_dedup, PreBackwardDedup::kFlag), "#834 (599258f97)"},
    {{0, 3, 12}, SET(wraps_containers, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(backward_fn_made_once, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(grads_remaining_initialised_once, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(backward_needs_train_mode, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(leaf_modules, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(default_leaf_classes, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(leaf_reduction, LeafReduction::kPerParam), "#834 (599258f97)"},
    {{0, 3, 12}, SET(linear_is_wrapped, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(partition_all, PartitionAll::kEndOfBackward), "#834 (599258f97)"},
    {{0, 3, 12}, SET(persistence_inclusive, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(model_persistence_threshold, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(free_active, FreeActive::kUnchecked), "#834 (599258f97)"},
    {{0, 3, 12}, SET(has_save_16bit, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(save_16bit_prologue, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(save_16bit_modifier, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(load_prologue, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(partitioned_data_numel, 1), "#834 (599258f97)"},
    {{0, 3, 12}, SET(prologue_only_if_present, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(offload_is_optimizer, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(optimizer_less_engine, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gradient_buffer_needs_optimizer, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(boundary_asks_checkpoint_engine, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(sets_optimizer_boundary, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(contiguous_gradients, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(stage3_class, "FP16_DeepSpeedZeroOptimizer_Stage3"), "#834 (599258f97)"},
    {{0, 3, 12}, SET(backward_in_parts, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(torch_style_backward, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(engine_has_getattr, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(partition_all_on_inflight, OnInflight::kIgnore), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathered_always_partitions, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathered_none_partitions, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathered_sorts, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(gathered_takes_lists, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(nested_gather_check, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(has_empty_partition_cache, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(has_unwrap, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(has_offload_states, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(knows_allgather_sequential, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(single_handle_waits_again, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(rank_checks_always, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(rank_check_lengths, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(partition_word, "parititon"), "#834 (599258f97)"},
    {{0, 3, 12}, SET(inflight_form, SummaryForm::kBoundMethod), "#834 (599258f97)"},
    {{0, 3, 12}, SET(summary_has_partition_shape, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(tracing_error_names_module, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(tracing_error_debug_names, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(overflow_checked_in_fp16_only, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(empty_params_are_optimized, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(overflow_read_from_buffer, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(invalid_norm_is_overflow, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(own_group_for_norms, true), "#834 (599258f97)"},
    {{0, 3, 12}, SET(own_group_for_grads, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(rank_zero_makes_folder, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(checkpoint_barriers, false), "#834 (599258f97)"},
    {{0, 3, 12}, SET(files_barrier, FilesBarrier::kWorld), "#834 (599258f97)"},
    {{0, 3, 13}, SET(no_grad_forward_hook_reset, true), "#851 (460188597)"},
    {{0, 3, 14}, SET(forward_start_reset, ForwardStartReset::kAfterRootPreHook), "#867 (7b46d11fa)"},
    {{0, 3, 14}, SET(has_save_16bit, true), "#893 (39013dd2b)"},
    {{0, 3, 14}, SET(gathered_takes_lists, true), "#884 (6d94afb54)"},
    {{0, 3, 14}, SET(gathered_always_partitions, false), "#884 (6d94afb54)"},
    {{0, 3, 15}, SET(zero_reuse_distance_never_keeps, true), "#976 (0d4a54a04)"},
    {{0, 4, 3}, SET(contiguous_gradients, true), "#1199 (c9fee8214)"},
    {{0, 4, 4}, SET(save_16bit_modifier, true), "#1223 (810394636)"},
    {{0, 4, 4}, SET(pre_backward_dedup, PreBackwardDedup::kCount), "#1227 (3fa24208c)"},
    {{0, 5, 4}, SET(partition_word, "partition"), "#1420 (56124621c)"},
    {{0, 5, 5}, SET(checkpoint_barriers, true), "#1486 (99bd592d2)"},
    {{0, 5, 5}, SET(gathered_singly, false), "#1188 (c0eeb69df)"},
    {{0, 5, 7}, SET(optimizer_less_engine, true), "#1514 (2332cb31a)"},
    {{0, 5, 9}, SET(stage3_class, "DeepSpeedZeroOptimizer_Stage3"), "#1607 (1d295ff5f)"},
    // The untagged master (0.5.11-dev) between #1453 and #1741.
    {{0, 5, 11}, SET(own_group_for_grads, true), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(coordinator, Coordinator::kPartitionedParameter), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(param_trace, ParamTrace::kAtPreHook), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(trace_overrun, TraceOverrun::kTracingError), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(forward_start_reset, ForwardStartReset::kNone), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(backward_end_reset, true), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(step_reset, false), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(reset_on_inflight, OnInflight::kRaise), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(partition_all_on_inflight, OnInflight::kRaise), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(prefetch_requires_training, true), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(prefetch_takes_available, true), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(n_available_zeroed, Availability::kAtReset), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(partition_all, PartitionAll::kStartOfStep), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(free_active, FreeActive::kAssert), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(rank_checks_always, true), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(partitioned_data_numel, 0), "#1453 (4912e0ad7)"},
    {{0, 5, 11}, SET(load_prologue, true), "#1750 (5fe5b38ea)"},
    {{0, 6, 0}, SET(save_16bit_prologue, true), "#1741 (baef92e26)"},
    {{0, 6, 2}, SET(coordinator_per_mode, true), "#1901 (ef17c8957)"},
    {{0, 6, 2}, SET(no_grad_engine_reset, false), "#1901 (ef17c8957)"},
    {{0, 6, 2}, SET(initial_mode, InitialMode::kRecord), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(mismatch_invalidates, true), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(prefetch_requires_training, false), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(param_trace, ParamTrace::kAtPostForward), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(trace_overrun, TraceOverrun::kIndexError), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(zero_bucket_disables, true), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(tracing_error_names_module, true), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(gradient_buffer_needs_optimizer, true), "#1884 (32d97976c)"},
    {{0, 6, 2}, SET(wraps_containers, true), "#1857 (a52cbf80f)"},
    {{0, 6, 4}, SET(param_trace, ParamTrace::kAtReset), "#1916 (673cb6080)"},
    {{0, 6, 4}, SET(prefetch_takes_available, false), "#1916 (673cb6080)"},
    {{0, 6, 4}, SET(keeps_later_fetched_step, true), "#1916 (673cb6080)"},
    {{0, 6, 4}, SET(invalidation_line, InvalidationLine::kDebugLog), "#1916 (673cb6080)"},
    {{0, 6, 4}, SET(tracing_error_debug_names, true), "#1916 (673cb6080)"},
    {{0, 6, 5}, SET(engine_has_getattr, true), "#1915 (50893458d)"},
    {{0, 6, 6}, SET(retains_skipped_use, true), "#2016 (2a1a40964)"},
    {{0, 6, 6}, SET(reuse_loop_stops_at_distance, true), "#2016 (2a1a40964)"},
    {{0, 6, 6}, SET(offload_is_optimizer, true), "#2009 (678c3fe33)"},
    {{0, 7, 0}, SET(model_persistence_threshold, true), "#2089 (2210ebe70)"},
    {{0, 7, 6}, SET(rank_checks_always, false), "#2550 (aeda7f9f8)"},
    {{0, 8, 1}, SET(gathered_none_partitions, true), "#2665 (ddd48b36a)"},
    {{0, 9, 0}, SET(has_empty_partition_cache, true), "#3060 (e80ae0888)"},
    {{0, 9, 0}, SET(persistence_inclusive, true), "#3060 (e80ae0888)"},
    {{0, 9, 0}, SET(trace_overrun, TraceOverrun::kInvalidate), "#3186 (47f9f13bd)"},
    {{0, 9, 0}, SET(invalidation_line, InvalidationLine::kPrinted), "#3186 (47f9f13bd)"},
    {{0, 9, 0}, SET(backward_needs_train_mode, true), "#3186 (47f9f13bd)"},
    {{0, 9, 0}, SET(backward_uses_train_mode, true), "#3186 (47f9f13bd)"},
    {{0, 9, 0}, SET(world_one_skips_gather, true), "#2953 (4d27225f3)"},
    {{0, 9, 2}, SET(summary_has_partition_shape, true), "#2964"},
    {{0, 9, 3}, SET(registry_home, RegistryHome::kModule), "#3462 (4716b0f76)"},
    {{0, 9, 4}, SET(files_barrier, FilesBarrier::kOwnGroup), "#3440 (c88af2143)"},
    {{0, 9, 4}, SET(overflow_read_from_buffer, true), "#3622 (0977106ac)"},
    {{0, 10, 0}, SET(registry_home, RegistryHome::kModulePerMode), "#3884 (9377921a3)"},
    {{0, 10, 0}, SET(inflight_form, SummaryForm::kDicts), "#3819 (f8551b439)"},
    {{0, 10, 0}, SET(gathered_sorts, true), "#3819 (f8551b439)"},
    {{0, 10, 0}, SET(gather_needs_missing_partition, true), "#3784 (d18aa2c79)"},
    {{0, 10, 2}, SET(gathers_in_groups, true), "#3954 (7711bdbbd)"},
    {{0, 10, 2}, SET(prologue_only_if_present, true), "#4171 (6df158733)"},
    {{0, 11, 2}, SET(rank_zero_makes_folder, true), "#4536 (b891ec2af)"},
    {{0, 11, 2}, SET(overflow_checked_in_fp16_only, true), "#4512 (244040c18)"},
    {{0, 12, 3}, SET(handles_are_grouped, true), "#4647 (b8e166423)"},
    {{0, 13, 0}, SET(leaf_modules, true), "#4966 (96c5a873e)"},
    {{0, 13, 2}, SET(backward_fn_made_once, true), "#4878 (c3cfe96bb)"},
    {{0, 13, 2}, SET(leaf_reduction, LeafReduction::kInputHooks), "#5008 (19e0dc39b)"},
    {{0, 15, 0}, SET(has_unwrap, true), "#5658 (c2e3a706b)"},
    {{0, 15, 2}, SET(has_offload_states, true), "#6011 (047bcf6af)"},
    {{0, 15, 3}, SET(reset_on_inflight, OnInflight::kClean), "#6557 (7d751ee89)"},
    {{0, 15, 3}, SET(invalidation_cleans_inflight, true), "#6557 (7d751ee89)"},
    {{0, 15, 3}, SET(partition_all_on_inflight, OnInflight::kWaitAndRelease), "#6557 (7d751ee89)"},
    {{0, 15, 4}, SET(coordinator_per_mode, false), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(registry_home, RegistryHome::kModule), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(initial_mode, InitialMode::kInvalid), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(forward_start_reset, ForwardStartReset::kBeforeRootPreHook), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(no_grad_forward_hook_reset, false), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(backward_end_reset, false), "#6662 (351569dd4)"},
    {{0, 15, 4}, SET(backward_needs_train_mode, false), "#6662 (351569dd4)"},
    {{0, 16, 0}, SET(n_available_zeroed, Availability::kAtReleaseAll), "#6726 (cd20a3bbc)"},
    {{0, 16, 0}, SET(grads_remaining_initialised_once, true), "#6726 (cd20a3bbc)"},
    {{0, 16, 4}, SET(invalidation_line, InvalidationLine::kPrintedIfAsked), "#7039 (ee3f19bf6)"},
    {{0, 16, 5}, SET(backward_in_parts, true), "#7018 (b418cf6c1)"},
    {{0, 16, 8}, SET(n_available_zeroed, Availability::kAtReset), "#7258 (f45950258)"},
    {{0, 16, 8}, SET(grads_remaining_initialised_once, false), "#7258 (f45950258)"},
    {{0, 17, 1}, SET(boundary_asks_checkpoint_engine, true), "#7215 (24a1d8f93)"},
    {{0, 17, 1}, SET(files_barrier, FilesBarrier::kNone), "#7215 (24a1d8f93)"},
    {{0, 17, 6}, SET(rank_check_lengths, true), "#7525 (eabb687ac)"},
    {{0, 18, 0}, SET(default_leaf_classes, true), "#7604 (7d9a2f2bf)"},
    {{0, 18, 0}, SET(leaf_reduction, LeafReduction::kFullBackwardHook), "#7592 (6ea345ae2)"},
    {{0, 18, 3}, SET(torch_style_backward, true), "#7665 (53e91a098)"},
    {{0, 18, 5}, SET(knows_allgather_sequential, true), "#7661 (608760906)"},
    {{0, 18, 5}, SET(free_active, FreeActive::kRuntimeError), "#7817 (d9f3d40af)"},
    {{0, 18, 6}, SET(leaf_fetch_lock, true), "#7825 (52b1d4d6e)"},
    {{0, 19, 2}, SET(hook_registration_invalidates, true), "#8043 (87f31d55b)"},
    {{0, 19, 2}, SET(invalidation_clears_step_deque, true), "#8043 (87f31d55b)"},
    {{0, 19, 3}, SET(active_backward_stack, true), "#8148 (a31eb3165)"},
    {{0, 19, 3}, SET(own_group_for_norms, false), "#8060 (02663d6e5)"},
    {{0, 19, 3}, SET(own_group_for_grads, false), "#8060 (02663d6e5)"},
    {{0, 19, 3}, SET(release_iterates_set, true), "#8148 (a31eb3165)"},
    {{0, 19, 4}, SET(linear_is_wrapped, true), "#8189 (617061d6b)"},
    {{0, 19, 4}, SET(nested_gather_check, true), "#8157 (d8dd9e43c)"},
    {{0, 19, 5}, SET(sets_optimizer_boundary, true), "#8225 (cf4430045)"},
    {{0, 19, 7}, SET(single_handle_waits_again, false), "#8487"},
    {{0, 19, 8}, SET(invalid_norm_is_overflow, true), "the v0.19.8 package"},
    {{0, 19, 8}, SET(empty_params_are_optimized, false), "the v0.19.8 package"},
});

#undef SET

struct Era {
  Release first;
  std::string_view name;
};
constexpr auto kEras = std::to_array<Era>({
    {{0, 3, 12}, "A1"}, {{0, 3, 14}, "A2"}, {{0, 4, 4}, "A3"},  {{0, 5, 4}, "A4"},  {{0, 5, 11}, "B0"},
    {{0, 6, 0}, "B1"},  {{0, 6, 2}, "B2"},  {{0, 6, 4}, "B3"},  {{0, 6, 6}, "B4"},  {{0, 9, 0}, "B5"},
    {{0, 9, 3}, "B6"},  {{0, 10, 0}, "B7"}, {{0, 15, 3}, "C1"}, {{0, 15, 4}, "C2"}, {{0, 16, 0}, "C3"},
    {{0, 16, 8}, "C4"}, {{0, 18, 5}, "C5"}, {{0, 19, 2}, "C6"}, {{0, 19, 3}, "C7"}, {{0, 19, 4}, "C8"},
    {{0, 19, 6}, "C9"},
});

}  // namespace

Behaviour behaviour_of(const Release& release) {
  Behaviour behaviour;
  for (const Change& change : kChanges) {
    if (change.since <= release) change.apply(behaviour);
  }
  return behaviour;
}

std::vector<Change> changes_until(const Release& release) {
  std::vector<Change> changes;
  for (const Change& change : kChanges) {
    if (change.since <= release) changes.push_back(change);
  }
  return changes;
}

std::string_view era_of(const Release& release) {
  std::string_view name = kEras.front().name;
  for (const Era& era : kEras) {
    if (era.first <= release) name = era.name;
  }
  return name;
}

}  // namespace zero3
