// What a model is before DeepSpeed touches it: plain data, from which every rank builds its own Model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero3 {

struct ParamSpec {
  std::string name;            // local: "weight", "p0"
  std::vector<int64_t> shape;  // of the full parameter; elements, not bytes; an extent may be 0
  bool requires_grad = true;
  int tied_module = -1;  // >= 0: the same Parameter object as that module's param `tied_param`
  int tied_param = -1;

  bool operator==(const ParamSpec&) const = default;
};

// A parameter of another module that this one uses in its forward.
struct ExternalUse {
  int module = -1;
  int param = -1;
  bool registered = false;  // by register_external_parameter, before the first forward

  bool operator==(const ExternalUse&) const = default;
};

struct ModuleSpec {
  std::string name;                 // qualified: "model.layers.0.mlp"; the root has its own
  std::string type;                 // class name, for people
  std::string qualified_type = {};  // with its Python module; "": not known
  std::vector<ParamSpec> params;    // in registration order
  std::vector<int> children;  // indices into ModelSpec::modules, registration order; a module may be shared
  std::vector<ExternalUse> externals;
  int outputs = 1;    // output tensors of its forward, all of them used by the caller
  bool leaf = false;  // set_z3_leaf_modules

  bool operator==(const ModuleSpec&) const = default;
};

struct ModelSpec {
  std::vector<ModuleSpec> modules;  // modules[0] is the root; no cycles. Params are named as seen from there.

  bool operator==(const ModelSpec&) const = default;
};

}  // namespace zero3
