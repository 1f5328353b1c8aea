// Random numbers that are the same on every machine: SplitMix64.
//
// Not for secrets. The standard library's distributions are left alone on purpose: their results differ between
// libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace zero3::sim {

// A fixed, well-mixed function of its argument.
constexpr uint64_t split_mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// Draws one number after the other. Ranges are so small that the bias of a remainder does not matter.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(split_mix(seed)) {}

  uint64_t next() { return split_mix(state_ += 0x9e3779b97f4a7c15ULL); }

  // From 0 to count - 1. Precondition: count > 0.
  int below(int count) { return static_cast<int>(next() % static_cast<uint64_t>(count)); }
  // Both ends included.
  int between(int low, int high) { return low + below(high - low + 1); }
  // True in so many cases of a thousand.
  bool chance(int per_mille) { return below(1000) < per_mille; }

  // Precondition: something to choose from.
  template <typename Items>
  const auto& pick(const Items& items) {
    return items[static_cast<size_t>(below(static_cast<int>(items.size())))];
  }

  template <typename Item>
  void shuffle(std::vector<Item>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(below(static_cast<int>(i)))]);
  }

 private:
  uint64_t state_;
};

}  // namespace zero3::sim
