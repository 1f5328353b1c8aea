#include "sim/backends/nccl/nccl_group.h"

#include <cstring>

#include <fmt/format.h>

#include "sim/backend_unavailable.h"

namespace zero3::sim {
namespace {

std::string failure_text(ncclResult_t result, ncclComm_t comm, const std::string& what) {
  const char* last = ncclGetLastError(comm);
  const std::string details = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  return fmt::format("NCCL failed {}: {}{}", what, ncclGetErrorString(result), details);
}

}  // namespace

std::string new_nccl_id() {
  ncclUniqueId id = {};
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) throw BackendUnavailable(failure_text(result, nullptr, "to make an id"));
  return {id.internal, sizeof(id.internal)};
}

NcclGroup::NcclGroup(const std::string& id, int rank, int world_size) {
  ncclUniqueId unique = {};
  std::memcpy(unique.internal, id.data(), sizeof(unique.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  called(ncclCommInitRankConfig(&comm_, world_size, unique, rank, &config), what_);
}

NcclGroup::~NcclGroup() { abort(); }

void NcclGroup::fail(ncclResult_t result) const {
  throw BackendUnavailable(failure_text(result, comm_, what_));
}

void NcclGroup::called(ncclResult_t result, const std::string& what) {
  what_ = what;
  if (result != ncclSuccess && result != ncclInProgress) fail(result);
}

bool NcclGroup::ready() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) fail(asked);
  if (state == ncclInProgress) return false;
  if (state != ncclSuccess) fail(state);
  return true;
}

void NcclGroup::close() { called(ncclCommFinalize(comm_), "to end its work"); }

bool NcclGroup::closed() {
  if (!ready()) return false;
  ncclCommDestroy(comm_);
  comm_ = nullptr;
  return true;
}

void NcclGroup::abort() {
  if (comm_ != nullptr) ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace zero3::sim
