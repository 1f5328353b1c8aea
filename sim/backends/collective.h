// One collective as a rank issues it: what the others have to issue too, or they do not meet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/communicator.h"

namespace zero3::sim {

enum class CollectiveKind { kAllGather, kBroadcast, kBroadcastInts, kReduceScatter, kAllReduce, kBarrier };

// Collectives of one group meet in the order in which they are issued, whatever happens in another.
enum class ProcessGroup {
  kWorld,         // torch.distributed's default group
  kDataParallel,  // DeepSpeed's clone of it
};
constexpr int kProcessGroups = 2;

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllGather;
  ProcessGroup group = ProcessGroup::kWorld;
  size_t number = 0;                         // in its group, from 0: the same on all ranks that meet
  std::vector<int> ds_ids = {};              // of the params, in the collective's order
  std::vector<std::string> names = {};       // theirs
  std::vector<int64_t> shards = {};          // elements of each that one rank holds
  std::vector<int64_t> ds_numels = {};       // elements of each, whole
  int64_t shard_numel = 0;                   // elements that each rank contributes
  std::vector<int64_t> ints = {};            // of a broadcast of ints
  int source_rank = -1;                      // of a broadcast
  Meeting meeting = Meeting::kGradientNorm;  // of an all-reduce or a barrier
  size_t statement = 0;                      // index of the program's statement that issued it

  // "all-gather of A.weight (32 elements a rank)"
  std::string text() const;
  int64_t numel() const;  // elements that each rank contributes; of a broadcast, those sent
};

std::string_view name(CollectiveKind kind);  // "all-gather", ...
std::string_view name(ProcessGroup group);   // "world", "data-parallel"

// Whether that rank takes in what others send.
bool receives(const Collective& collective, int rank);
// Whether its data is MovedData's: a barrier has none, and a broadcast of ints brings its own.
bool moves_data(const Collective& collective);
// Whether ranks add up what they send.
bool sums(const Collective& collective);
// The same operation on the same things.
bool same(const Collective& a, const Collective& b);
// A communication library cannot tell them apart: the same operation with as many elements.
bool alike(const Collective& a, const Collective& b);

}  // namespace zero3::sim
