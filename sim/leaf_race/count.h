// A whole number of any size: the interleavings of a few dozen steps are more than 64 bits hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero3::sim {

class Count {
 public:
  Count() = default;
  explicit Count(uint64_t value);

  Count& operator+=(const Count& other);
  bool operator==(const Count&) const = default;
  bool is_zero() const { return digits_.empty(); }

  std::string text() const;        // all decimal digits
  std::string short_text() const;  // all digits up to 12 of them, else "1.23e+45"
  // This by `whole`, in 0 to 1. Precondition: not zero, and at least this.
  double share_of(const Count& whole) const;

 private:
  // The first digits as a number, and how many decimal places follow them.
  double leading(int& places) const;

  std::vector<uint32_t> digits_;  // to the base 10^9, lowest first, none above the highest
};

}  // namespace zero3::sim
