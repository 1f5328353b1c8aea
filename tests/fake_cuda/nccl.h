// A fake of NCCL for tests, over Unix sockets between processes of one machine: the declarations that sim/backends/nccl
// uses, with the names, values and signatures of NCCL's own header. As with NCCL, a call returns before its work is
// begun, and ranks that do not call the same wait until they abort (fake_nccl.cpp).
//
// ZERO3_FAKE_NCCL=KIND:rank=R,collective=K[,ms=T] makes the rank's K-th call go wrong, the first being 0:
//   error    an asynchronous error     refuse  the call fails: the GPU lacks its type
//   stall    it never ends             delay   it begins T milliseconds late
//   corrupt  one word arrives wrong
// More than one are separated by semicolons; collective=all is every one.
#pragma once

#include <cstddef>

#include "tests/fake_cuda/cuda_runtime_api.h"

extern "C" {

enum ncclResult_t {
  ncclSuccess = 0,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t { ncclInt8 = 0, ncclUint32 = 3, ncclFloat32 = 7 };
enum ncclRedOp_t { ncclSum = 0 };
using ncclComm_t = struct ncclComm*;

constexpr int NCCL_UNIQUE_ID_BYTES = 128;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);

ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
}
