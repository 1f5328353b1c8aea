// The MPI job that this process is a rank of: its start and end, and what its ranks tell one another beside the
// collectives that they are run for.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <mpi.h>

namespace zero3::sim {

// What a wait does between two looks.
class Pause {
 public:
  // `crowded`: there are fewer processors than ranks. The time counts from here.
  Pause(bool crowded, int timeout_ms);
  // False once the time is over.
  bool once() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool crowded_;
  Clock::time_point begin_;
  Clock::time_point deadline_;
};

class MpiJob {
 public:
  // Beyond the time of its collectives, a rank has this long to come to the end.
  static constexpr int kGraceMs = 15'000;

  // Starts MPI. `timeout_ms`: of one collective.
  explicit MpiJob(int timeout_ms);
  // Ends it; collectives that not all ranks join may be left.
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int timeout_ms() const { return timeout_ms_; }
  // Of the ranks on this rank's machine: how many there are, and how many of them come before it.
  int ranks_on_machine() const { return ranks_on_machine_; }
  int place_on_machine() const { return place_on_machine_; }

  // Tells rank 0, which gets what every rank told, by rank; the others get nothing. A rank that does not come within
  // the time that all its collectives may take ends the job.
  std::vector<std::string> gather(const std::string& own) { return gather(own, 2 * timeout_ms_ + kGraceMs); }
  // What rank 0 says, everywhere.
  std::string from_rank0(const std::string& own);

  // A communicator of the same ranks. All of them have to come, as to gather().
  MPI_Comm duplicate();
  // Ends all processes at once.
  [[noreturn]] void abort(const std::string& why, int code) const;

  // Calls `done` until it is true, then true; false once `timeout_ms` have passed. Other processes get the processor,
  // at once where this machine has fewer of them than ranks.
  template <class Done>
  bool poll(const Done& done, int timeout_ms) const {
    if (done()) return true;
    Pause pause(crowded_, timeout_ms);
    while (pause.once()) {
      if (done()) return true;
    }
    return false;
  }

 private:
  std::vector<std::string> gather(const std::string& own, int wait_ms);
  void find_places();
  bool receive(int from, std::string& text) const;
  void send(int to, const std::string& text) const;
  // Waits until the request is complete, which takes all ranks: ends the job where one does not come.
  void wait_for_all(MPI_Request request);
  std::string who_is_missing(const std::vector<bool>& came) const;

  int timeout_ms_;
  int rank_ = 0;
  int size_ = 1;
  int ranks_on_machine_ = 1;
  int place_on_machine_ = 0;
  bool crowded_ = false;
};

}  // namespace zero3::sim
