#include "sim/scenario/model_presets_parts.h"

#include <string>
#include <vector>

namespace zero3::sim {

int PresetMaker::module(int parent, const std::string& name, const std::string& type) {
  return parent < 0 ? model_.add_root(name, type) : model_.add_module(parent, name, type);
}

int PresetMaker::linear(int parent, const std::string& name, int64_t in, int64_t out, bool bias) {
  const int made = module(parent, name, "Linear");
  model_.add_param(made, "weight", {out, in});
  if (bias) model_.add_param(made, "bias", {out});
  return made;
}

int PresetMaker::conv1d(int parent, const std::string& name, int64_t in, int64_t out) {
  const int made = module(parent, name, "Conv1D");
  model_.add_param(made, "weight", {in, out});
  model_.add_param(made, "bias", {out});
  return made;
}

int PresetMaker::embedding(int parent, const std::string& name, int64_t count, int64_t width) {
  const int made = module(parent, name, "Embedding");
  model_.add_param(made, "weight", {count, width});
  return made;
}

int PresetMaker::layer_norm(int parent, const std::string& name, int64_t width, const std::string& type) {
  const int made = module(parent, name, type);
  model_.add_param(made, "weight", {width});
  model_.add_param(made, "bias", {width});
  return made;
}

int PresetMaker::rms_norm(int parent, const std::string& name, const std::string& type, int64_t width) {
  const int made = module(parent, name, type);
  model_.add_param(made, "weight", {width});
  return made;
}

int PresetMaker::head(int root, const PresetSizes& sizes, int owner, int64_t width) {
  if (!flag_of(sizes, "tie_word_embeddings"))
    return linear(root, "lm_head", width, size_of(sizes, "vocab_size"));
  const int head = module(root, "lm_head", "Linear");
  tie_weight(head, owner);
  return head;
}

void PresetMaker::forward(int module, const std::vector<int>& calls) {
  Plan plan;
  for (const int call : calls) {
    if (call < 0) continue;
    if (!model_.extra_of(call).container) {
      plan.push_back(PlanItem{.module = call});
      continue;
    }
    for (const int child : model_.callable_children(call)) plan.push_back(PlanItem{.module = child});
  }
  model_.extra_of(module).forward = std::move(plan);
  model_.extra_of(module).has_forward = true;
}

void PresetMaker::then_draw(int module, int experts, int64_t drawn, bool per_rank) {
  PlanItem draw;
  draw.candidates = model_.callable_children(experts);
  draw.drawn = static_cast<int>(drawn);
  draw.per_rank = per_rank;
  model_.extra_of(module).forward.push_back(draw);
}

}  // namespace zero3::sim
