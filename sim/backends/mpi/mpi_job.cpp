#include "sim/backends/mpi/mpi_job.h"

#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

namespace zero3::sim {
namespace {

constexpr int kTag = 1;
// What is near comes within these: a wait then holds the processor, or only yields it.
constexpr auto kSpin = std::chrono::milliseconds(20);
constexpr auto kYield = std::chrono::milliseconds(1);
constexpr auto kNap = std::chrono::microseconds(200);
// Beyond the time of its collectives, a rank has this long to come to the end.
constexpr int kGraceMs = 30'000;

}  // namespace

MpiJob::MpiJob(int timeout_ms) : timeout_ms_(timeout_ms) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // hears of what fails in a request
  MPI_Comm_dup(MPI_COMM_WORLD, &control_);
  MPI_Comm_rank(control_, &rank_);
  MPI_Comm_size(control_, &size_);
  MPI_Comm here = MPI_COMM_NULL;
  int ranks_here = 1;
  MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &ranks_here);
  MPI_Comm_free(&here);
  crowded_ = static_cast<unsigned>(ranks_here) > std::thread::hardware_concurrency();
}

MpiJob::~MpiJob() {
  MPI_Comm_free(&control_);
  MPI_Finalize();
}

Pause::Pause(bool crowded, int timeout_ms)
    : crowded_(crowded), begin_(Clock::now()), deadline_(begin_ + std::chrono::milliseconds(timeout_ms)) {}

bool Pause::once() const {
  const Clock::time_point now = Clock::now();
  if (now >= deadline_) return false;
  if (!crowded_ && now - begin_ < kSpin) return true;
  if (crowded_ && now - begin_ < kYield) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

bool MpiJob::receive(int from, std::string& text) const {
  int arrived = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Improbe(from, kTag, control_, &arrived, &message, &status);
  if (arrived == 0) return false;
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  text.resize(static_cast<size_t>(bytes));
  MPI_Mrecv(text.data(), bytes, MPI_CHAR, &message, MPI_STATUS_IGNORE);
  return true;
}

void MpiJob::send(int to, const std::string& text) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kTag, control_, &request);
  const bool sent = poll(
      [&request] {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done != 0;
      },
      2 * timeout_ms_ + kGraceMs);
  if (!sent) abort(fmt::format("rank {} does not take what rank {} tells it", to, rank_), 3);
}

std::string MpiJob::who_is_missing(const std::vector<bool>& came) const {
  std::string missing;
  for (size_t rank = 0; rank < came.size(); ++rank) {
    if (!came[rank]) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  return fmt::format("nothing is heard of rank {}: its process is stopped, or hangs outside of collectives",
                     missing);
}

std::vector<std::string> MpiJob::gather(const std::string& own) {
  if (rank_ != 0) {
    send(0, own);
    return {};
  }
  std::vector<std::string> all(static_cast<size_t>(size_));
  std::vector<bool> came(all.size(), false);
  all.front() = own;
  came.front() = true;
  size_t left = all.size() - 1;
  const bool complete = poll(
      [&] {
        for (size_t rank = 1; rank < all.size(); ++rank) {
          if (came[rank] || !receive(static_cast<int>(rank), all[rank])) continue;
          came[rank] = true;
          --left;
        }
        return left == 0;
      },
      2 * timeout_ms_ + kGraceMs);
  if (!complete) abort(who_is_missing(came), 3);
  return all;
}

std::string MpiJob::from_rank0(const std::string& own) {
  if (rank_ == 0) {
    for (int rank = 1; rank < size_; ++rank) send(rank, own);
    return own;
  }
  std::string text;
  if (!poll([&] { return receive(0, text); }, 4 * timeout_ms_ + 2 * kGraceMs))
    abort("nothing is heard of rank 0", 3);
  return text;
}

MPI_Comm MpiJob::duplicate() const {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(control_, &copy);
  return copy;
}

void MpiJob::abort(const std::string& why, int code) const {
  std::fprintf(stderr, "error: rank %d: %s\n", rank_, why.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace zero3::sim
