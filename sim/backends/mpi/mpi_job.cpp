#include "sim/backends/mpi/mpi_job.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <sstream>
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
// Ranks that all wait for one another answer a roll call at once.
constexpr int kRollCallMs = 5'000;
// All that is said beside the collectives goes over it, and nothing else.
const MPI_Comm kControl = MPI_COMM_WORLD;

}  // namespace

// Nothing here but MPI_Init waits without end for a process that does not come.
MpiJob::MpiJob(int timeout_ms) : timeout_ms_(timeout_ms) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_set_errhandler(kControl, MPI_ERRORS_RETURN);  // hears of what fails in a request
  MPI_Comm_rank(kControl, &rank_);
  MPI_Comm_size(kControl, &size_);
  find_places();
}

// The ranks by their machines; whether any of these has fewer processors than ranks.
void MpiJob::find_places() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::string machines;
  for (const std::string& machine : gather(name.data())) machines += machine + "\n";
  std::istringstream lines(from_rank0(machines));
  std::map<std::string, int> ranks_on;
  int rank = 0;
  for (std::string machine; std::getline(lines, machine); ++rank) {
    if (rank == rank_) place_on_machine_ = ranks_on[machine];
    ++ranks_on[machine];
  }
  ranks_on_machine_ = ranks_on[name.data()];
  const auto most = std::ranges::max_element(ranks_on, {}, [](const auto& one) { return one.second; });
  crowded_ = static_cast<unsigned>(most->second) > std::thread::hardware_concurrency();
}

MpiJob::~MpiJob() {
  // MPI_Finalize would wait for a stopped process for ever.
  MPI_Request everyone = MPI_REQUEST_NULL;
  MPI_Ibarrier(kControl, &everyone);
  wait_for_all(everyone);
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
  MPI_Improbe(from, kTag, kControl, &arrived, &message, &status);
  if (arrived == 0) return false;
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  text.resize(static_cast<size_t>(bytes));
  MPI_Mrecv(text.data(), bytes, MPI_CHAR, &message, MPI_STATUS_IGNORE);
  return true;
}

void MpiJob::send(int to, const std::string& text) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kTag, kControl, &request);
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

std::vector<std::string> MpiJob::gather(const std::string& own, int wait_ms) {
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
      wait_ms);
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

MPI_Comm MpiJob::duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request everyone = MPI_REQUEST_NULL;
  MPI_Comm_idup(kControl, &copy, &everyone);
  wait_for_all(everyone);
  return copy;
}

void MpiJob::wait_for_all(MPI_Request request) {
  const bool came = poll(
      [&request] {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done != 0;
      },
      timeout_ms_ + kGraceMs);
  if (came) return;
  gather("", kRollCallMs);  // names who does not come, unless it is rank 0
  from_rank0("");
  abort("all ranks are there, and yet do not come together: the machine is too slow for this --timeout", 5);
}

void MpiJob::abort(const std::string& why, int code) const {
  std::fprintf(stderr, "error: rank %d: %s\n", rank_, why.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace zero3::sim
