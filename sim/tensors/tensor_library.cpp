// LibTorch takes half a second to load, which runs without tensors need not wait for: it is behind a module of its own,
// loaded when it is asked for.
#include <array>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>

#include "sim/backend_unavailable.h"
#include "sim/bad_input.h"
#include "sim/tensors/rank_tensors.h"

namespace zero3::sim {
namespace {

constexpr const char* kModule = "zero3sim_torch.so";
constexpr const char* kMaker = "zero3sim_make_tensor_library";

// Beside the program, or where it is installed.
std::filesystem::path module_file() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {".", "../lib/zero3sim"}) {
    std::filesystem::path file = folder / place / kModule;
    if (std::filesystem::exists(file, error)) return file;
  }
  return {};
}

}  // namespace

std::unique_ptr<TensorLibrary> open_tensor_library(const TensorOptions& options) {
  if (!options.wanted()) return nullptr;
  const std::filesystem::path file = module_file();
  if (file.empty()) {
    throw BackendUnavailable(
        "this build has no tensors: install libtorch-dev (docker/install-deps.sh --torch), then configure "
        "and "
        "build again");
  }
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) throw BackendUnavailable(fmt::format("cannot load LibTorch: {}", dlerror()));
  using Maker = TensorLibrary* (*)();
  const auto maker = reinterpret_cast<Maker>(dlsym(module, kMaker));
  if (maker == nullptr) throw BackendUnavailable(fmt::format("{} is of another zero3sim", file.string()));
  return std::unique_ptr<TensorLibrary>(maker());
}

}  // namespace zero3::sim
