// Named tensors in a file that torch.load and this program read.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

namespace zero3::sim {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// A dict, in this order. The file is there whole, or what was there before still is. Throws BadInput.
void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors);
NamedTensors read_tensors(const std::filesystem::path& file);

}  // namespace zero3::sim
