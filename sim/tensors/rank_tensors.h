// Real tensors of one rank, and the library that makes them.
#pragma once

#include <memory>

#include "coordinator/behaviour.h"
#include "coordinator/model.h"
#include "coordinator/param_tensors.h"
#include "sim/backends/moved_data.h"
#include "sim/program.h"
#include "sim/tensors/tensor_options.h"
#include "sim/tensors/tensor_report.h"

namespace zero3::sim {

// What the coordinator asks for, and what its collectives move.
class RankTensors : public ParamTensors, public MovedData {
 public:
  // Before anything else. The model outlives this.
  virtual void begin_run(Model& model) = 0;
  // The operation has run; `statement`: its index in the rank's program. The reference follows.
  virtual void ran(const Op& op, size_t statement) = 0;
  // The program has ended, or failed; the model is still there.
  virtual TensorReport end_run() = 0;
};

class TensorLibrary {
 public:
  virtual ~TensorLibrary() = default;
  // For one run. May be called from several threads. Throws BadInput where the experiment has what tensors cannot do.
  virtual std::unique_ptr<RankTensors> make(const Experiment& experiment, const Behaviour& behaviour,
                                            int rank, const TensorOptions& options) const = 0;
};

// Null for "none". Throws BackendUnavailable where this build has no such library, BadInput where options contradict.
std::unique_ptr<TensorLibrary> open_tensor_library(const TensorOptions& options);

}  // namespace zero3::sim
