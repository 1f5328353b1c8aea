// Data that says whose it is: every element of a parameter is a word made of its ds_id and its index, so that what
// arrives in a wrong place is recognised. The rank keeps its shard of each param that it ever gathered.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/backends/moved_data.h"

namespace zero3::sim {

// Elements of a parameter that held another's data after a collective.
struct WrongData {
  size_t collective = 0;  // index in the rank's own sequence
  int ds_id = 0;
  int64_t first = 0;  // elements of the whole parameter, from 0; of a gradient: of this rank's shard
  int64_t end = 0;
  int of_ds_id = -1;  // whose data it was; of a gradient, which is a sum: -1

  bool operator==(const WrongData&) const = default;
};

class MarkedData final : public MovedData {
 public:
  MarkedData(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  Buffers begin(const Collective& collective) override;
  void reduce(const Collective& collective, std::span<const std::byte> of_all) override;
  void end(const Collective& collective, size_t index) override;

  // Everything that arrived and was wrong, in the order of arrival.
  const std::vector<WrongData>& wrong() const { return wrong_; }

 private:
  struct Words {
    std::vector<uint32_t> send;
    std::vector<uint32_t> receive;
  };
  using Key = std::pair<ProcessGroup, size_t>;  // of a collective: it is open between begin() and end()

  const std::vector<uint32_t>& own_shard(int ds_id, int64_t shard, int64_t ds_numel);
  void pack_own_shards(const Collective& collective, std::vector<uint32_t>& words);
  void fill_gradients(const Collective& collective, std::vector<uint32_t>& words) const;
  void check(const Collective& collective, size_t index, const std::vector<uint32_t>& words);
  void check_piece(const Collective& collective, size_t index, size_t param, int64_t first,
                   std::span<const uint32_t> words);

  int rank_;
  int world_size_;
  std::map<int, std::vector<uint32_t>> shards_;  // this rank's, by ds_id
  std::map<Key, Words> open_;
  std::vector<WrongData> wrong_;
};

}  // namespace zero3::sim
