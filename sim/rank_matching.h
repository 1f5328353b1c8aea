// Lays the ranks' sequences of collectives beside one another: how far each rank comes, where they first differ, who
// waits for whom, and which data was exchanged that does not belong together.
//
// Collectives meet by process group and number alone, as NCCL and gloo match them. Every rank of a collective waits for
// every other, the ranks of a broadcast too: real ones on gloo do.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/rank_classes.h"
#include "sim/rank_result.h"

namespace zero3::sim {

class RankMatching {
 public:
  // `classes` must outlive it, the class of rank 0 first.
  explicit RankMatching(std::vector<RankClass>& classes);

  // Lets every class go on as far as the others let it. False: one has received ints of rank 0 that are not its own,
  // and is stale.
  bool advance();
  // Gives every class that never goes on the divergence that says so.
  void block();

  // All that is to be said of ranks that differ: who waits for whom, and what was mixed up.
  void conclude(SimulationResult& result) const;

 private:
  std::optional<Disagreement> first_disagreement() const;
  std::vector<Waiting> waits() const;
  std::vector<MixUp> mix_ups() const;
  const Collective* issued(size_t of_class, ProcessGroup group, size_t number) const;
  // The collective that it waits in; null: it does not.
  const Collective* waits_in(size_t of_class) const;
  Obstacle obstacle(size_t own, size_t other) const;
  bool passes(size_t own);
  bool receives_other_ints(size_t own, const Collective& collective);
  std::string where(size_t of_class, const Collective& meant) const;
  Disagreement sides(ProcessGroup group, size_t number) const;

  std::vector<RankClass>& classes_;
  std::vector<size_t> position_;  // by class: the wait point that it has come to
  // By class and process group: the index of each collective of it, by number.
  std::vector<std::array<std::vector<size_t>, kProcessGroups>> indices_;
};

}  // namespace zero3::sim
