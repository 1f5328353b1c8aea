// What real tensors came to on one rank, beside the same training without DeepSpeed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero3::sim {

// One loss, or one element of a weight.
struct ComparedValue {
  double value = 0;
  double reference = 0;  // that of a model that nobody partitions

  bool differs() const { return !(value == reference) && (value == value || reference == reference); }
  bool operator==(const ComparedValue&) const = default;
};

struct TensorReport {
  struct Loss {
    size_t statement = 0;  // index in the rank's program
    ComparedValue compared = {};

    bool operator==(const Loss&) const = default;
  };
  // The first element of a param, in this rank's partition or in what it has gathered, that is not the reference's.
  struct UnlikeWeight {
    std::string name = {};
    int64_t element = 0;  // of the whole param, from 0
    int64_t numel = 0;    // how many are unlike
    ComparedValue compared = {};

    bool operator==(const UnlikeWeight&) const = default;
  };

  std::string library = {};  // "LibTorch 1.13.1"
  std::string dtype = {};
  std::string optimizer = {};
  int64_t updates = 0;
  std::vector<Loss> losses = {};
  std::vector<UnlikeWeight> unlike_weights = {};
  std::string no_reference = {};        // why there is none; empty: there is one
  std::vector<std::string> files = {};  // written, in order

  bool operator==(const TensorReport&) const = default;
};

}  // namespace zero3::sim
