// What the presets are made of: layers and the order in which a forward calls them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

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
  int layer_norm(int parent, const std::string& name, int64_t width);
  int rms_norm(int parent, const std::string& name, const std::string& type, int64_t width);

  // What `module` calls, in order; modules of a ModuleList are called in its place.
  void forward(int module, std::initializer_list<int> calls);
  // The same, then `drawn` of the children of `experts`.
  void forward_then_draw(int module, int first, int experts, int64_t drawn, bool per_rank);
  void tie_weight(int module, int owner) { model_.tie(module, "weight", {owner, 0}); }

  ScenarioModel& model() { return model_; }

 private:
  ScenarioModel& model_;
};

// The size of that name; it is there.
inline int64_t size_of(const PresetSizes& sizes, std::string_view name) { return sizes.find(name)->second; }

// One function a family; each builds as Preset::build says.
int build_mlp(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
int build_gpt(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
int build_llama(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
int build_mixtral(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);
int build_t5(ScenarioModel& model, int parent, const std::string& name, const PresetSizes& sizes);

}  // namespace zero3::sim
