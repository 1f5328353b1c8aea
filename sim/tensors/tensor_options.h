// --tensors and what belongs to it.
#pragma once

#include <string>

namespace zero3::sim {

struct TensorOptions {
  std::string name = "none";  // none, torch
  std::string dtype = {};     // float32, bfloat16, float16; empty: float16 with fp16.enabled, else float32
  std::string optimizer = "sgd";  // sgd, adam
  double learning_rate = 0.01;
  std::string save_dir = {};  // where save_16bit_model and save_checkpoint write; empty: they write nothing

  bool wanted() const { return name != "none"; }
};

// " --tensors torch --dtype float32", what a line that repeats the run ends with.
std::string command_words(const TensorOptions& options);

}  // namespace zero3::sim
