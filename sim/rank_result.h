// What ranks that ran beside one another came to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/failure.h"
#include "coordinator/param.h"
#include "sim/backends/collective.h"

namespace zero3::sim {

// A Failure with its params copied out: it outlives the run.
struct RankFailure {
  struct NamedParam {
    int ds_id = -1;
    std::string name = {};
    ZeroParamStatus status = ZeroParamStatus::kNotAvailable;
    int64_t ds_numel = 0;

    bool operator==(const NamedParam&) const = default;
  };
  FailureKind kind = FailureKind::kInternal;
  std::string exception = {};
  std::string text = {};
  std::vector<std::string> path = {};
  std::vector<NamedParam> params = {};
  size_t statement = 0;  // index in the rank's program
};

struct RankResult {
  int rank = 0;
  int like_rank = 0;                        // the lowest rank that does the same: the one that is watched
  std::optional<RankFailure> failure = {};  // what this rank raised or waits for; none: ran to the end
  std::vector<Collective> collectives = {};
};

// One collective as ranks see it that issue the same.
struct Side {
  std::vector<int> ranks;
  std::optional<Collective> collective;  // none: they never issue it
  std::string instead;                   // then: what they do: "has ended its program"
};

// A collective in which not all ranks are the same.
struct Disagreement {
  ProcessGroup group = ProcessGroup::kWorld;
  size_t number = 0;  // of the collective in its group, from 0: those of the program, not of the start
  std::vector<Side> sides;
};

// Why a collective never completes.
enum class Obstacle {
  kNone,
  kAbsent,          // a rank never issues as many in this process group
  kOtherOperation,  // a rank issues another operation in its place
  kOtherSize,       // the same with more or fewer elements
};

struct Waiting {
  int rank = 0;
  Collective collective;
  Obstacle obstacle =
      Obstacle::kNone;  // the gravest of its obstacles: of other size, other operation, absent
  std::vector<int> for_ranks;
  bool has_least = false;  // kOtherSize: its buffer is smaller than what another rank sends
};

// Data of one parameter that was taken for another's.
struct MixedPiece {
  std::vector<int> ranks;  // that hold it
  int ds_id = 0;
  std::string name;
  int from_rank = 0;
  int of_ds_id = 0;
  std::string of_name;
  int64_t first = 0;  // elements of the whole parameter, from 0; of a gradient: of its owner's shard
  int64_t end = 0;
};

// A collective that paired different params of as many elements: nothing fails, and the data is wrong.
struct MixUp {
  Disagreement where;
  std::vector<MixedPiece> pieces;

  bool of_gradients() const { return where.sides.front().collective->kind == CollectiveKind::kReduceScatter; }
};

// What all ranks of one run came to.
struct SimulationResult {
  std::vector<RankResult> ranks = {};
  // The rank whose failure came first; -1: none.
  int first_failed_rank = -1;
  // Of ranks that differ; empty where all do the same.
  std::optional<Disagreement> first_disagreement = {};
  std::vector<Waiting> waits = {};  // of each rank that waits for ever, by rank
  std::vector<MixUp> mix_ups = {};  // in the order of rank 0
  // The same in words.
  std::vector<std::string> corruptions = {};

  bool failed() const { return first_failed_rank >= 0; }
};

}  // namespace zero3::sim
