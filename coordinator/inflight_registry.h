// InflightParamRegistry: which param is in flight under which handle, in the order a Python dict keeps.
//
// It is about registration, not status: a param leaves only when a fetch of a module owning it waits for it, even if a
// sibling's wait made it AVAILABLE before.
#pragma once

#include <cstddef>
#include <vector>

#include "coordinator/partitioner.h"

namespace zero3 {

class InflightRegistry {
 public:
  struct Entry {
    Param* param;  // null: popped
    AllGatherHandle* handle;
  };

  bool empty() const { return live_ == 0; }
  bool contains(const Param& param) const { return place_of(param) != kAbsent; }
  void insert(Param& param, AllGatherHandle& handle);
  // Null if absent.
  AllGatherHandle* pop(const Param& param);
  void clear();
  // Entries in insertion order; popped ones have no param.
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<const Param*> params() const;

 private:
  static constexpr int kAbsent = -1;
  int place_of(const Param& param) const;
  void compact();

  std::vector<Entry> entries_;
  std::vector<int> places_;  // by ds_id, index into entries_
  size_t live_ = 0;
};

}  // namespace zero3
