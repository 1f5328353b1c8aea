// A ZeRO-3 parameter as the coordinator sees it: sizes, status, who is using it. No values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero3 {

struct Module;

enum class ZeroParamStatus { kNotAvailable, kInflight, kAvailable };

// NOT_AVAILABLE, INFLIGHT, AVAILABLE, as DeepSpeed prints it.
std::string status_text(ZeroParamStatus status);

// ds_active_sub_modules: the ids of the modules that use a param now. A set of ids from v0.6.0 (a repeated id counts
// once), a plain counter before; the counter lives in Param::active_count.
class ActiveSubModules {
 public:
  void add(int module_id);
  void discard(int module_id);
  void clear() { ids_.clear(); }
  bool empty() const { return ids_.empty(); }
  // Ascending.
  const std::vector<int>& ids() const { return ids_; }

 private:
  std::vector<int> ids_;
};

struct Param {
  int ds_id = -1;          // given at conversion, in model.parameters() order, unique in the process
  std::string name;        // qualified, as the module calls it that made it
  std::string debug_name;  // deepspeed.utils.debug: as the engine made last finds it first; "": not there
  std::vector<int64_t> ds_shape;  // of the full parameter
  int64_t ds_numel = 0;           // elements of the full parameter
  bool requires_grad = true;
  bool ds_persist = false;
  const Module* ds_z3_leaf_module = nullptr;  // the leaf module it is below of
  bool is_external_param = false;             // set when a module returned it as an output
  ZeroParamStatus ds_status = ZeroParamStatus::kNotAvailable;
  ActiveSubModules ds_active_sub_modules;
  int active_count = 0;            // ds_active_sub_modules before v0.6.0
  int gathered_context_depth = 0;  // GatheredParameters contexts that hold it (v0.19.4)
  bool data_is_full = false;       // param.data has ds_numel elements now (else none)
  int data_version = 0;    // times that a checkpoint was copied over its data, as autograd counts them
  bool has_grad = false;   // has a param.grad: until it is reduced, for good where nobody does that
  uint64_t set_order = 0;  // its place in a Python set: ds_id, or shuffled by a seed

  // Elements of one rank's shard, padding included.
  int64_t partition_numel(int world_size) const { return (ds_numel + world_size - 1) / world_size; }
};

}  // namespace zero3
