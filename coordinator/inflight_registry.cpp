#include "coordinator/inflight_registry.h"

namespace zero3 {

int InflightRegistry::place_of(const Param& param) const {
  const auto id = static_cast<size_t>(param.ds_id);
  return id < places_.size() ? places_[id] : kAbsent;
}

void InflightRegistry::insert(Param& param, AllGatherHandle& handle) {
  const auto id = static_cast<size_t>(param.ds_id);
  if (id >= places_.size()) places_.resize(id + 1, kAbsent);
  places_[id] = static_cast<int>(entries_.size());
  entries_.push_back({&param, &handle});
  ++live_;
}

AllGatherHandle* InflightRegistry::pop(const Param& param) {
  const int place = place_of(param);
  if (place == kAbsent) return nullptr;
  Entry& entry = entries_[static_cast<size_t>(place)];
  AllGatherHandle* handle = entry.handle;
  entry = {nullptr, nullptr};
  places_[static_cast<size_t>(param.ds_id)] = kAbsent;
  --live_;
  compact();
  return handle;
}

void InflightRegistry::clear() {
  for (const Entry& entry : entries_) {
    if (entry.param != nullptr) places_[static_cast<size_t>(entry.param->ds_id)] = kAbsent;
  }
  entries_.clear();
  live_ = 0;
}

std::vector<const Param*> InflightRegistry::params() const {
  std::vector<const Param*> params;
  for (const Entry& entry : entries_) {
    if (entry.param != nullptr) params.push_back(entry.param);
  }
  return params;
}

// Drops popped entries once they outnumber the live ones, so that the vector stays as small as the dict.
void InflightRegistry::compact() {
  if (live_ == 0) {
    entries_.clear();
    return;
  }
  constexpr size_t kSlack = 16;
  if (entries_.size() < 2 * live_ + kSlack) return;
  std::erase_if(entries_, [](const Entry& entry) { return entry.param == nullptr; });
  for (size_t i = 0; i < entries_.size(); ++i)
    places_[static_cast<size_t>(entries_[i].param->ds_id)] = static_cast<int>(i);
}

}  // namespace zero3
