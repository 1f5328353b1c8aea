// Differential fuzzing: random programs on real DeepSpeed and on its model, and the smallest program of each
// difference.
//
// Programs are judged one after the other by as many judges as there are jobs, each in a thread of its own. What comes
// out does not depend on their number. A program that differs is shrunk at once by the judge that found it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/fuzz/fuzz_target.h"
#include "sim/program.h"

namespace zero3::sim {

struct Judgement {
  enum class Kind {
    kAgrees,
    kDiffers,
    kInconclusive,  // refused by the probe, or the real run cannot tell
    kTimedOut,      // the real run did not come to its end in time where the model did
    kDied,          // the probe ended in the middle, or talked nonsense
  };
  Kind kind = Kind::kAgrees;
  // How it differs: shrinking keeps to programs for which this is the same. For other kinds: why.
  std::string way = {};
  bool raised = false;      // the model's run ends with a failure
  size_t events = 0;        // compared and found equal
  std::string report = {};  // of a difference, for people
  std::string real_trace = {};
  std::string model_trace = {};
};

// Real DeepSpeed and the model side by side. Used by one thread at a time.
class Judge {
 public:
  Judge() = default;
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;
  virtual ~Judge() = default;
  virtual Judgement judge(const Experiment& experiment, const std::string& name) = 0;
};

struct FuzzOptions {
  FuzzTarget target;
  uint64_t seed = 1;
  uint64_t first = 0;  // index of the first program
  uint64_t programs = 100;
  // World sizes: a program in ten runs on each but the first, the others on the first. At most 10.
  std::vector<int> ranks = {1};
  int jobs = 1;
  size_t shrink_limit = 400;  // runs for one difference
};

struct FuzzFinding {
  uint64_t index = 0;
  int ranks = 1;        // of the program as generated
  Judgement judgement;  // of the smallest program
  Experiment smallest;
  size_t runs = 0;       // that shrinking took
  bool finished = true;  // else the limit ended it: it may not be the smallest
};

struct FuzzResult {
  struct Counts {
    uint64_t agree = 0;
    uint64_t differ = 0;
    uint64_t inconclusive = 0;
    uint64_t timed_out = 0;
    uint64_t died = 0;
    uint64_t total() const { return agree + differ + inconclusive + timed_out + died; }
  };
  Counts counts;
  std::map<int, uint64_t> programs_by_ranks;
  uint64_t raised = 0;                                     // programs that end with a failure
  uint64_t events = 0;                                     // compared and found equal
  std::vector<FuzzFinding> findings;                       // by index
  std::map<std::string, std::vector<uint64_t>> undecided;  // why, and the programs' indices
};

struct FuzzHooks {
  std::function<std::unique_ptr<Judge>()> make_judge;  // called once a job, in its thread
  // After every program, by one thread at a time. May be empty.
  std::function<void(const FuzzResult& so_far)> progress = {};
  std::function<void(const FuzzFinding& finding)> found = {};
};

// World size of a program.
int ranks_of(const FuzzOptions& options, uint64_t index);

// What a judge or hook throws ends the run and is thrown on.
FuzzResult fuzz(const FuzzOptions& options, const FuzzHooks& hooks);

}  // namespace zero3::sim
