#include "bench/allocations.h"

#include <cstdlib>
#include <new>

#include <malloc.h>

namespace zero3::bench {
namespace {
Allocations counted;  // the benchmarks have one thread
}  // namespace

Allocations allocations() { return counted; }

namespace {

void* counted_new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  counted.live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  ++counted.calls;
  return memory;
}

void counted_delete(void* memory) {
  counted.live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace
}  // namespace zero3::bench

void* operator new(size_t size) { return zero3::bench::counted_new(size); }
void operator delete(void* memory) noexcept { zero3::bench::counted_delete(memory); }
void operator delete(void* memory, size_t) noexcept { zero3::bench::counted_delete(memory); }
