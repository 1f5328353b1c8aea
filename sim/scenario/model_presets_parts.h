// What the presets are made of: layers and the order in which a forward calls them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario/model.h"
#include "sim/scenario/model_presets.h"

namespace zero3::sim {

class PresetMaker {
 public:
  explicit PresetMaker(ScenarioModel& model) : model_(model) {}

  // parent -1: the root.
  int module(int parent, const std::string& name, const std::string& type);
  int list(int parent, const std::string& name) { return module(parent, name, "ModuleList"); }
  int linear(int parent, const std::string& name, int64_t in, int64_t out, bool bias = false);
  int conv1d(int parent, const std::string& name, int64_t in,
             int64_t out);  // transformers' Conv1D: weight is [in, out]
  int embedding(int parent, const std::string& name, int64_t count, int64_t width);
  int layer_norm(int parent, const std::string& name, int64_t width, const std::string& type = "LayerNorm");
  int rms_norm(int parent, const std::string& name, const std::string& type, int64_t width);

  // lm_head, with the weight of the embedding `owner` if it is tied.
  int head(int root, const PresetSizes& sizes, int owner, int64_t width);

  // What `module` calls, in order; modules of a ModuleList are called in its place. -1: nothing.
  void forward(int module, const std::vector<int>& calls);
  // Then `drawn` of the children of `experts`.
  void then_draw(int module, int experts, int64_t drawn, bool per_rank);
  void then(int module, int call) { model_.extra_of(module).forward.push_back(PlanItem{.module = call}); }
  void tie_weight(int module, int owner) { model_.tie(module, "weight", {owner, 0}); }

  ScenarioModel& model() { return model_; }

 private:
  ScenarioModel& model_;
};

// The size of that name; it is there.
inline int64_t size_of(const PresetSizes& sizes, std::string_view name) { return sizes.find(name)->second; }

// A flag of that name; false where the family has none.
inline bool flag_of(const PresetSizes& sizes, std::string_view name) {
  const auto found = sizes.find(name);
  return found != sizes.end() && found->second != 0;
}
// Whether the classes are those of transformers 5.
inline bool is_transformers_5(const PresetSizes& sizes) { return size_of(sizes, "transformers") == 5; }

// One function a family; each builds as Preset::build says.
using BuildPreset = int(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
BuildPreset build_mlp, build_gpt, build_opt, build_bloom, build_t5;
BuildPreset build_llama, build_mistral, build_qwen2, build_qwen3, build_mixtral, build_qwen2_moe,
    build_qwen3_moe;

}  // namespace zero3::sim
