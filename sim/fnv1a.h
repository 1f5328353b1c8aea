// A hash of bytes that is the same everywhere: FNV-1a, 64 bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero3::sim {

inline uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace zero3::sim
