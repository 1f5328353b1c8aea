// The data that collectives of real processes move, and what becomes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/backends/collective.h"

namespace zero3::sim {

// Where a collective takes its data from and puts it. Empty `send`: it works in `receive`, of which the rank's own part
// is filled in.
struct Buffers {
  std::span<std::byte> send = {};
  std::span<std::byte> receive = {};
};

class MovedData {
 public:
  virtual ~MovedData() = default;

  // The rank's contribution to a collective that moves data: all-gather, broadcast, reduce-scatter, all-reduce, the
  // last two of unsigned integers of 4 bytes. Valid until end() of the same collective.
  virtual Buffers begin(const Collective& collective) = 0;
  // The sum of a reduce-scatter or an all-reduce, for a backend that cannot add such elements: puts the sum of what
  // each rank sends to this one, by rank, where the collective receives.
  // By default nothing: not all data is ever summed.
  virtual void reduce(const Collective&, std::span<const std::byte>) {}
  // The data has arrived. `index`: in the rank's own sequence.
  virtual void end(const Collective& collective, size_t index) = 0;
  // Whether the buffers lie in the memory of the rank's GPU: a backend on GPUs then moves nothing to it nor back.
  virtual bool on_device() const { return false; }
};

}  // namespace zero3::sim
