#include "sim/cli/backend_command_line.h"

#include <cmath>

#include "sim/cli/checks.h"

namespace zero3::sim::cli {
namespace {

void add_tensor_options(CLI::App& command, TensorOptions& tensors) {
  CLI::Option* wanted =
      command
          .add_option("--tensors", tensors.name,
                      "none, or torch: params have values, LibTorch computes with them (docs/tensors.md)")
          ->check(CLI::IsMember({"none", "torch"}).description(""))
          ->capture_default_str();
  command
      .add_option(
          "--dtype", tensors.dtype,
          "Of params with values: float32, bfloat16 or float16 (default: float32, with fp16.enabled float16)")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}).description(""))
      ->needs(wanted);
  command.add_option("--optimizer", tensors.optimizer, "Of params with values: sgd or adam")
      ->check(CLI::IsMember({"sgd", "adam"}).description(""))
      ->capture_default_str()
      ->needs(wanted);
  command.add_option("--lr", tensors.learning_rate, "Its learning rate")
      ->check(CLI::Range(0.0, 1000.0))
      ->check(a_number())
      ->capture_default_str()
      ->needs(wanted);
  command
      .add_option("--save-dir", tensors.save_dir,
                  "Folder for what a program with values saves (default: none)")
      ->check(filled())
      ->needs(wanted);
}

}  // namespace

void add_backend_options(CLI::App& command, BackendOptions& backend) {
  command
      .add_option("--backend", backend.name,
                  "sim: virtual ranks in this process; mpi: the processes that mpirun started; nccl: those, "
                  "with a GPU "
                  "each (docs/cluster.md)")
      ->check(CLI::IsMember({"sim", "mpi", "nccl"}).description(""))
      ->capture_default_str();
  command
      .add_option_function<double>(
          "--timeout",
          [&backend](double timeout_s) {
            backend.timeout_ms = static_cast<int>(std::lround(timeout_s * 1000));
          },
          "Seconds after which a collective of real processes hangs (default: 30)")
      ->check(CLI::Range(0.1, 86400.0))
      ->check(a_number());
  command
      .add_option("--fault", backend.fault,
                  "kill:rank=2,collective=7: kills a real process at a collective, both counted from 0")
      ->check(filled());
  add_tensor_options(command, backend.tensors);
}

}  // namespace zero3::sim::cli
