#include "sim/tensors/tensor_options.h"

#include <fmt/format.h>

#include "sim/shell_word.h"

namespace zero3::sim {

std::string command_words(const TensorOptions& options) {
  if (!options.wanted()) return "";
  std::string words = fmt::format(" --tensors {}", options.name);
  if (!options.dtype.empty()) words += " --dtype " + options.dtype;
  words += fmt::format(" --optimizer {} --lr {:g}", options.optimizer, options.learning_rate);
  if (!options.save_dir.empty()) words += " --save-dir " + shell_word(options.save_dir);
  return words;
}

}  // namespace zero3::sim
