// What a rank's run took of its GPU, on a backend whose ranks have one.
#pragma once

#include <cstdint>

namespace zero3::sim {

struct DeviceUsage {
  int gpu = 0;             // its number on the rank's node
  int64_t peak_bytes = 0;  // most in use at one time by parameters and collectives
  int64_t driver_peak_bytes =
      0;  // most that the driver missed of its free memory since before the first: with what NCCL takes
  int64_t peak_fetch_events =
      0;  // most that were outstanding where a rank began to wait for one more all-gather
  int64_t blocked_fetches = 0;  // waits that had to let the oldest of them happen first

  bool operator==(const DeviceUsage&) const = default;
};

}  // namespace zero3::sim
