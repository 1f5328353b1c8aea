#include "sim/fixes/catalogue.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "sim/fixes/model_fixes.h"
#include "sim/fixes/program_fixes.h"

namespace zero3::sim {
namespace {

#define PREFETCHED                                                                                       \
  "inflight-at-reset partition-in-flight still-in-flight expected-released tracing-error not-available " \
  "free-active index-error already-in-registry"

constexpr auto kKnown = std::to_array<KnownFix>({
    {"prefetch-below", FixKind::kSetting,
     "stage3_prefetch_bucket_size such that the prefetch which took the unused parameter ends before it",
     PREFETCHED, "deepspeedai/DeepSpeed#5828"},
    {"no-prefetch", FixKind::kSetting, "stage3_prefetch_bucket_size: 0",
     PREFETCHED " stale-weights prefetch-thrown-away", "deepspeedai/DeepSpeed#5828"},
    {"live-below", FixKind::kSetting,
     "stage3_max_live_parameters such that the prefetch which took the unused parameter ends before it",
     PREFETCHED, "deepspeedai/DeepSpeed#5828"},
    {"live-limit-0", FixKind::kSetting, "stage3_max_live_parameters: 0",
     PREFETCHED " stale-weights prefetch-thrown-away", "deepspeedai/DeepSpeed#5828"},
    {"no-reuse", FixKind::kSetting, "stage3_max_reuse_distance: 0",
     PREFETCHED " stale-weights unreleased-params", "deepspeedai/DeepSpeed#3156"},
    {"persist-skipped", FixKind::kSetting,
     "stage3_param_persistence_threshold at the largest parameter that was not used", PREFETCHED,
     "deepspeedai/DeepSpeed#5828"},
    {"persist-all", FixKind::kSetting, "stage3_param_persistence_threshold at the largest parameter",
     PREFETCHED " hang disagreement wrong-data stale-weights prefetch-disabled prefetch-thrown-away",
     "deepspeedai/DeepSpeed#5828"},
    {"persist-none", FixKind::kSetting, "stage3_param_persistence_threshold: 0", "load-mismatch free-active",
     "deepspeedai/DeepSpeed#1750"},
    {"no-accumulation", FixKind::kSetting, "gradient_accumulation_steps: 1",
     "partition-in-flight free-active stale-weights", "deepspeedai/DeepSpeed#1686"},
    {"train-before-backward", FixKind::kProgram, "engine.train() before a backward in evaluation mode",
     "eval-backward expected-released still-in-flight inflight-at-reset",
     "Lightning-AI/pytorch-lightning#19467"},
    {"eval-around-no-grad", FixKind::kProgram,
     "engine.eval() before a forward without gradients, engine.train() after it",
     "inflight-at-reset not-available partition-in-flight tracing-error prefetch-disabled",
     "deepspeedai/DeepSpeed#4922"},
    {"input-requires-grad", FixKind::kProgram, "what the model is called with requires a gradient",
     "leaf-input free-active unreleased-params", "deepspeedai/DeepSpeed#5008"},
    {"leaf-modules", FixKind::kProgram, "set_z3_leaf_modules on the modules that branch",
     "inflight-at-reset tracing-error already-in-registry hang disagreement wrong-data prefetch-disabled "
     "prefetch-thrown-away",
     "deepspeedai/DeepSpeed#4966"},
    {"empty-cache-before-saves", FixKind::kProgram,
     "engine.empty_partition_cache() before each save and each gather context",
     "partition-in-flight free-active nested-gather expected-released index-error",
     "deepspeedai/DeepSpeedExamples#360"},
    {"empty-cache-before-steps", FixKind::kProgram,
     "engine.empty_partition_cache() before each optimizer step",
     "partition-in-flight still-in-flight stale-weights unreleased-params", "deepspeedai/DeepSpeed#3060"},
    {"empty-cache-before-forwards", FixKind::kProgram, "engine.empty_partition_cache() before each forward",
     "inflight-at-reset not-available already-in-registry index-error free-active tracing-error",
     "deepspeedai/DeepSpeedExamples#360"},
    {"gather-each-once", FixKind::kProgram, "no parameter twice in one GatheredParameters",
     "already-gathering", "deepspeedai/DeepSpeed#3819"},
    {"gather-outside", FixKind::kProgram, "the outer GatheredParameters gathers for the inner ones",
     "nested-gather free-active partition-in-flight", "deepspeedai/DeepSpeed#8157"},
    {"reload-states", FixKind::kProgram, "engine.reload_states() before what trains or gathers",
     "missing-method states-offloaded", "deepspeedai/DeepSpeed#6011"},
    {"save-sharded", FixKind::kProgram, "save_checkpoint for save_16bit_model", "partition-in-flight",
     "deepspeedai/DeepSpeed#1686"},
    {"consolidate", FixKind::kProgram,
     "_zero3_consolidated_16bit_state_dict for the save of an engine without an optimizer", "missing-method",
     "deepspeedai/DeepSpeed#2009"},
    {"saves-after-step", FixKind::kProgram, "saves and gather contexts inside a step stand after it",
     PREFETCHED, "deepspeedai/DeepSpeed#1686"},
    {"saves-before-step", FixKind::kProgram, "saves and gather contexts inside a step stand before it",
     PREFETCHED, "haotian-liu/LLaVA#1583"},
    {"saves-before-evaluation", FixKind::kProgram,
     "saves and gather contexts behind evaluations stand before them", "partition-in-flight index-error",
     "deepspeedai/DeepSpeed#6662"},
    {"evaluations-after-step", FixKind::kProgram, "evaluations inside a step stand after it",
     "not-available inflight-at-reset tracing-error already-in-registry", "deepspeedai/DeepSpeed#3068"},
    {"discard-skipped", FixKind::kProgram, "what a branch leaves out runs too, and its result is discarded",
     PREFETCHED " hang disagreement wrong-data prefetch-disabled prefetch-thrown-away",
     "huggingface/transformers#16717"},
    {"use-skipped", FixKind::kProgram,
     "what a branch leaves out runs too, and its result is added times zero: backward reaches it",
     PREFETCHED " hang disagreement wrong-data prefetch-disabled prefetch-thrown-away",
     "deepspeedai/DeepSpeed#7170"},
    {"call-through-engine", FixKind::kProgram, "modules called without the root are called through it",
     "tracing-error index-error not-available inflight-at-reset expected-released empty-weight",
     "CarperAI/trlx#483"},
    {"prologue-before-branches", FixKind::kProgram,
     "an evaluation that leaves nothing out before each forward that does",
     "inflight-at-reset tracing-error index-error already-in-registry", "deepspeedai/DeepSpeed#3156"},
    {"prologue-before-saves", FixKind::kProgram,
     "an evaluation that leaves nothing out before each save and each gather context",
     "partition-in-flight free-active still-in-flight", "deepspeedai/DeepSpeed#1748"},
    {"checkpoint-non-reentrant", FixKind::kProgram, "checkpointed regions with use_reentrant=False",
     "gradient-twice tracing-error empty-weight unreleased-params index-error", "deepspeedai/DeepSpeed#7116"},
    {"checkpoint-reentrant", FixKind::kProgram, "checkpointed regions with use_reentrant=True",
     "empty-weight tracing-error unreleased-params index-error", "huggingface/transformers#47254"},
    {"no-checkpointing", FixKind::kProgram, "no checkpointed regions",
     "gradient-twice empty-weight tracing-error unreleased-params index-error", "deepspeedai/DeepSpeed#7116"},
    {"same-on-every-rank", FixKind::kProgram, "every rank does what the rank with the most to do does",
     "hang disagreement wrong-data index-error internal", "deepspeedai/DeepSpeed#7170"},
    {"older-release", FixKind::kRelease, "the nearest older release", "", "deepspeedai/DeepSpeed#1903"},
    {"newer-release", FixKind::kRelease, "the nearest newer release", "", "deepspeedai/DeepSpeed#6557"},
});

#undef PREFETCHED

bool has_word(std::string_view words, std::string_view word) {
  size_t at = 0;
  while (at <= words.size()) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

using Change = std::function<std::optional<Experiment>(const Experiment&)>;

Change of_setting(int64_t Settings::*field, int64_t value) {
  return [field, value](const Experiment& experiment) -> std::optional<Experiment> {
    if (experiment.settings.*field == value) return std::nullopt;
    Experiment changed = experiment;
    changed.settings.*field = value;
    return changed;
  };
}

// One accumulation step for each optimizer step.
std::optional<Experiment> without_accumulation(const Experiment& experiment) {
  if (experiment.settings.gradient_accumulation_steps == 1) return std::nullopt;
  Experiment changed = experiment;
  changed.settings.gradient_accumulation_steps = 1;
  return changed;
}

struct ProgramChange {
  std::string_view id;
  std::optional<Experiment> (*change)(const Experiment&);
  std::string_view otherwise;  // what there is not, where there is nothing to change
};

constexpr std::string_view kNoBranch = "no forward leaves anything out";
constexpr std::string_view kNoSave = "there is no save and no gather context";
constexpr std::string_view kNoCheckpointing = "there are no such checkpointed regions";

constexpr auto kProgramChanges = std::to_array<ProgramChange>({
    {"no-accumulation", without_accumulation, "gradients do not accumulate"},
    {"train-before-backward", train_before_backward, "no backward runs in evaluation mode"},
    {"eval-around-no-grad", eval_around_no_grad, "no forward without gradients runs in train mode"},
    {"input-requires-grad", input_requires_grad, "it does already"},
    {"leaf-modules", leaf_modules_at_branches, "no module but the root, or a leaf module, branches"},
    {"empty-cache-before-saves", empty_cache_before_saves, kNoSave},
    {"empty-cache-before-steps", empty_cache_before_steps, "there is no step"},
    {"empty-cache-before-forwards", empty_cache_before_forwards, "there is no forward"},
    {"gather-each-once", gather_each_once, "no context gathers one twice"},
    {"gather-outside", gather_outside, "no gather context lies in another one"},
    {"reload-states", reload_states_before_use, "no states are offloaded"},
    {"save-sharded", save_sharded, "there is no save_16bit_model"},
    {"consolidate", consolidate_without_optimizer, "no engine without an optimizer saves"},
    {"saves-after-step", saves_after_step, "no save or gather context stands inside a step that ends"},
    {"saves-before-step", saves_before_step, "no save or gather context stands inside a step"},
    {"saves-before-evaluation", saves_before_evaluation, "none stands behind an evaluation"},
    {"evaluations-after-step", evaluations_after_step, "no evaluation stands inside a step that ends"},
    {"discard-skipped", discard_skipped, kNoBranch},
    {"use-skipped", use_skipped, kNoBranch},
    {"call-through-engine", call_through_engine, "no module is called without the root"},
    {"prologue-before-branches", prologue_before_branches, kNoBranch},
    {"prologue-before-saves", prologue_before_saves, kNoSave},
    {"checkpoint-non-reentrant", checkpoint_non_reentrant, kNoCheckpointing},
    {"checkpoint-reentrant", checkpoint_reentrant, kNoCheckpointing},
    {"no-checkpointing", no_checkpointing, kNoCheckpointing},
    {"same-on-every-rank", same_on_every_rank, "all ranks do the same"},
});

// Makes the candidates of one program on one release.
class Maker {
 public:
  Maker(const FixSubject& subject, const Experiment& experiment, const Release& release,
        const Outcome& outcome)
      : experiment_(experiment), release_(release), outcome_(outcome), seed_(subject.seed) {}

  Candidate make(const KnownFix& known) {
    Candidate made{.id = std::string(known.id), .kind = known.kind, .what = std::string(known.what)};
    if (known.kind == FixKind::kSetting && known.id != "no-accumulation") {
      set(made, known.id);
    } else {
      const auto change = std::ranges::find(kProgramChanges, known.id, &ProgramChange::id);
      made.change = change->change;
      if (!change->change(experiment_)) made.inapplicable = change->otherwise;
      if (known.id == "leaf-modules") name_leaf_modules(made);
    }
    return made;
  }

 private:
  void set(Candidate& made, std::string_view id) {
    if (id == "no-prefetch") number(made, kPrefetch, 0);
    if (id == "live-limit-0") number(made, kLive, 0);
    if (id == "no-reuse") number(made, kReuse, 0);
    if (id == "persist-none") number(made, kPersistence, 0);
    if (id == "persist-all") number(made, kPersistence, persisting(largest_numel(experiment_), release_));
    if (id == "persist-skipped") {
      const int64_t numel = largest_skipped_numel(experiment_, outcome_);
      if (numel == 0) {
        made.inapplicable = "no parameter is known that was not used";
      } else {
        number(made, kPersistence, persisting(numel, release_));
      }
    }
    if (id == "prefetch-below" || id == "live-below") below(made, id == "live-below");
  }

  // Just so much that the prefetch which took the first unused parameter ends before it.
  void below(Candidate& made, bool live) {
    if (!looked_) early_ = find_early_gather(experiment_, release_, seed_, outcome_);
    looked_ = true;
    if (!early_) {
      made.inapplicable = "no prefetch took a parameter that was not used";
    } else if (early_->numel_before == 0 && !live) {
      made.inapplicable =
          fmt::format("{} is the first that the prefetch at {} takes: no bucket above 0 leaves it out",
                      early_->param, early_->at);
    } else {
      number(made, live ? kLive : kPrefetch, early_->numel_before + (live ? early_->live_numel : 0));
      made.what += fmt::format(" (ends before {})", early_->param);
    }
  }

  struct Key {
    std::string_view name;
    int64_t Settings::*field;
  };
  static constexpr Key kPrefetch = {"stage3_prefetch_bucket_size", &Settings::prefetch_bucket_numel};
  static constexpr Key kLive = {"stage3_max_live_parameters", &Settings::max_live_numel};
  static constexpr Key kReuse = {"stage3_max_reuse_distance", &Settings::max_reuse_distance_numel};
  static constexpr Key kPersistence = {"stage3_param_persistence_threshold",
                                       &Settings::param_persistence_threshold_numel};

  void number(Candidate& made, const Key& key, int64_t value) const {
    made.what = fmt::format("{}: {}", key.name, value);
    made.change = of_setting(key.field, value);
    if (experiment_.settings.*key.field == value) made.inapplicable = "it is so already";
    const bool persistence = key.field == kPersistence.field;
    if (persistence && value > 0 && experiment_.settings.*key.field > value)
      made.inapplicable = "it is higher already";
  }

  void name_leaf_modules(Candidate& made) const {
    std::string names;
    for (const int module : branching_modules(experiment_))
      names += (names.empty() ? "" : ", ") + experiment_.model.modules[static_cast<size_t>(module)].name;
    if (!names.empty()) made.what = "set_z3_leaf_modules on " + names;
  }

  const Experiment& experiment_;
  const Release& release_;
  const Outcome& outcome_;
  uint64_t seed_;
  bool looked_ = false;
  std::optional<EarlyGather> early_;
};

// Of the releases of a file's fix, the nearest to the one that fails; a newer one of two.
std::optional<Release> nearest(const std::vector<Release>& releases, const Release& to) {
  const auto known = known_releases();
  const auto distance = [&](const Release& release) {
    return std::abs((std::ranges::find(known, release) - known.begin()) -
                    (std::ranges::find(known, to) - known.begin()));
  };
  std::optional<Release> best;
  for (const Release& release : releases) {
    if ((!best || distance(release) <= distance(*best))) best = release;
  }
  return best;
}

Candidate of_file(const FileFix& fix, const Release& release) {
  Candidate made{.id = fix.name, .what = fix.name};
  if (fix.settings) {
    const Settings settings = *fix.settings;
    made.change = [settings](const Experiment& experiment) -> std::optional<Experiment> {
      Experiment changed = experiment;
      changed.settings = settings;
      return changed;
    };
  } else if (fix.program) {
    made.kind = FixKind::kProgram;
    made.program = fix.program;
  } else {
    made.kind = FixKind::kRelease;
    made.release = nearest(fix.releases, release);
    if (std::ranges::find(fix.releases, release) != fix.releases.end())
      made.inapplicable = "the release is one of those";
  }
  return made;
}

// A file's setting that a known fix has too is that.
bool same_change(const Candidate& known, const FileFix& fix, const Experiment& experiment) {
  if (known.kind != FixKind::kSetting || !fix.settings || !known.inapplicable.empty()) return false;
  const std::optional<Experiment> changed = known.change(experiment);
  return changed && changed->settings == *fix.settings;
}

}  // namespace

std::string_view name(FixKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"setting", "program", "release"};
  return kNames[static_cast<size_t>(kind)];
}

std::span<const KnownFix> known_fixes() { return kKnown; }

bool Candidate::is_named(const std::string& name) const {
  return id == name || std::ranges::find(names, name) != names.end();
}

std::string ailment_of(const Outcome& outcome) {
  const std::string word = cell_word(outcome);
  return word == "ok" ? "" : word;
}

std::vector<Candidate> candidates_for(const FixSubject& subject, const Experiment& experiment,
                                      const Release& release, const Outcome& outcome) {
  const std::string ailment = ailment_of(outcome);
  std::vector<Candidate> candidates;
  Maker maker(subject, experiment, release, outcome);
  for (const KnownFix& known : kKnown) {
    if (known.kind == FixKind::kRelease || !has_word(known.tried_for, ailment)) continue;
    Candidate made = maker.make(known);
    // Two ways to the same number are one fix.
    if (std::ranges::find(candidates, made.what, &Candidate::what) == candidates.end())
      candidates.push_back(std::move(made));
  }
  for (const FileFix& fix : subject.fixes) {
    const auto same = std::ranges::find_if(
        candidates, [&](const Candidate& known) { return same_change(known, fix, experiment); });
    if (same != candidates.end()) {
      same->names.push_back(fix.name);
    } else {
      candidates.push_back(of_file(fix, release));
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::kind);
  return candidates;
}

}  // namespace zero3::sim
