// Whole numbers as people write them in ds_config.json: 50000000, 50_000_000, 5e7, "5e7", 1.5e9.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero3::sim {

struct Number {
  enum class Kind { kWhole, kNotANumber, kNegative, kFraction, kTooLarge };
  Kind kind = Kind::kNotANumber;
  int64_t value = 0;
};

// Exact: no floating point on the way. Too large: does not fit an int64_t.
Number parse_number(std::string_view text);

}  // namespace zero3::sim
