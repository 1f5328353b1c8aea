#include "sim/tensors/torch/checkpoint_file.h"

#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <torch/serialize.h>

#include "sim/bad_input.h"
#include "sim/whole_file.h"

namespace zero3::sim {

void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  c10::Dict<std::string, torch::Tensor> dict;
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  const std::vector<char> bytes = torch::pickle_save(dict);
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    throw BadInput(fmt::format("cannot make {}: {}", file.parent_path().string(), error.message()),
                   "--save-dir");
  write_whole_file(file.string(), std::string(bytes.begin(), bytes.end()), "checkpoint");
}

NamedTensors read_tensors(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw BadInput(fmt::format("cannot read {}", file.string()), "--save-dir");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  NamedTensors tensors;
  for (const auto& entry : torch::pickle_load(bytes).toGenericDict())
    tensors.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
  return tensors;
}

}  // namespace zero3::sim
