// The numbers that DeepSpeed gives a model's modules and parameters, beside their names.
//
// Not worked out anew: the engines are made as for any run, and their model is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/program.h"

namespace zero3::sim {

struct ModuleRow {
  int id = -1;  // module.ds_id, before v0.16.4 module.id; -1: it has none
  std::string name;
  std::string type;
  bool leaf = false;                   // as set_z3_leaf_modules: what is below it has no id
  std::vector<std::string> also = {};  // other names of a shared module; the last registration counts

  bool operator==(const ModuleRow&) const = default;
};

struct ParamRow {
  int ds_id = -1;
  std::string name;
  std::vector<int64_t> shape;
  int64_t numel = 0;
  bool persistent = false;             // at the experiment's thresholds
  std::vector<std::string> also = {};  // tied: other names of the same parameter

  bool operator==(const ParamRow&) const = default;
};

struct IdTable {
  std::vector<ModuleRow> modules;  // by id; those without one come last, in the order of named_modules()
  std::vector<ParamRow> params;    // by ds_id

  int64_t numel() const;  // of all params
};

IdTable id_table(const Experiment& experiment, const Release& release);

}  // namespace zero3::sim
