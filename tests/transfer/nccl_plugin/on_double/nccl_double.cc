#include "tests/transfer/nccl_plugin/on_double/nccl_double.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>

struct ncclComm {
  int polls = 0;  ///< Polls left until the operation in progress ends.
  ncclResult_t end = ncclSuccess;
  bool finalized = false, revoked = false;
  ncclComm** made_of_this = nullptr;  ///< Address for the shrunk communicator.
};

namespace weft::test {

NcclDouble nccl_double;

bool NcclDouble::did(const std::string& call) const {
  return std::ranges::find(calls, call) != calls.end();
}

namespace {

constexpr int kPolls = 2;

std::set<ncclComm*> alive;
std::set<ncclComm*> in_group;
ncclResult_t group_error = ncclSuccess;

void note(std::string call) { nccl_double.calls.push_back(std::move(call)); }

ncclComm* make() {
  auto* const communicator = new ncclComm;
  alive.insert(communicator);
  ++nccl_double.communicators;
  return communicator;
}

void free_communicator(ncclComm* communicator) {
  alive.erase(communicator);
  --nccl_double.communicators;
  delete communicator;
}

bool is_alive(ncclComm* communicator, const char* call) {
  if (alive.contains(communicator)) return true;
  note(std::string("wrong: ") + call + " of a communicator that is not there");
  return false;
}

/// Returns the state that NCCL checks before most calls.
ncclResult_t ready(ncclComm* communicator, const char* call) {
  if (!is_alive(communicator, call)) return ncclInvalidArgument;
  return communicator->polls > 0 ? ncclInvalidArgument : communicator->end;
}

ncclResult_t begin(ncclComm* communicator) {
  communicator->polls = kPolls;
  communicator->end = std::exchange(nccl_double.next_state, ncclSuccess);
  return ncclInProgress;
}

/// Ends the operation in progress, also by an abort. A shrunk communicator is written in both
/// cases.
void finish(ncclComm* communicator) {
  communicator->polls = 0;
  if (communicator->made_of_this == nullptr) return;
  *communicator->made_of_this = make();
  communicator->made_of_this = nullptr;
}

ncclResult_t operation(ncclComm* communicator, const char* name) {
  if (nccl_double.open_groups == 0) note(std::string("wrong: ") + name + " outside of a group");
  ncclResult_t result = ready(communicator, name);
  if (result == ncclSuccess && communicator->revoked) result = ncclInvalidUsage;
  if (result == ncclSuccess) result = std::exchange(nccl_double.next_call, ncclSuccess);
  if (result == ncclSuccess) {
    note(name);
    in_group.insert(communicator);
  } else if (group_error == ncclSuccess) {
    group_error = result;
  }
  return result;
}

}  // namespace
}  // namespace weft::test

using namespace weft::test;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of the double"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* to, int size, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (config->blocking != 0) note("wrong: a blocking communicator");
  if (config->maxCTAs <= 0) return ncclInvalidArgument;
  note("init");
  *to = make();
  return begin(*to);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  if (!is_alive(communicator, "state")) return ncclInvalidArgument;
  if (communicator->polls > 0 && --communicator->polls > 0) {
    *state = ncclInProgress;
    return ncclSuccess;
  }
  finish(communicator);
  *state = communicator->end;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++nccl_double.open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (nccl_double.open_groups == 0) return ncclInvalidUsage;
  if (--nccl_double.open_groups > 0) return ncclSuccess;
  const ncclResult_t result = std::exchange(group_error, ncclSuccess);
  const auto communicators = std::exchange(in_group, {});
  if (result != ncclSuccess) return result;
  for (ncclComm* const communicator : communicators) begin(communicator);
  return communicators.empty() ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t, ncclDataType_t, int,
                           ncclComm_t communicator, cudaStream_t) {
  if (from == nullptr || to == nullptr) note("wrong: a broadcast without a buffer");
  return operation(communicator, "broadcast");
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t communicator,
                      cudaStream_t) {
  return operation(communicator, "send");
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t communicator, cudaStream_t) {
  return operation(communicator, "receive");
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t communicator, cudaStream_t) {
  return operation(communicator, "all_reduce");
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t communicator, cudaStream_t) {
  return operation(communicator, "reduce_scatter");
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t communicator,
                           cudaStream_t) {
  return operation(communicator, "all_gather");
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (const ncclResult_t result = ready(communicator, "finalize"); result != ncclSuccess)
    return result;
  // NCCL's documentation: "Calling ncclCommFinalize after revoke is invalid."
  if (communicator->finalized || communicator->revoked) return ncclInvalidArgument;
  note("finalize");
  communicator->finalized = true;
  return begin(communicator);
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (const ncclResult_t result = ready(communicator, "destroy"); result != ncclSuccess)
    return result;
  note(communicator->finalized ? "destroy" : "wrong: destroyed before it was finalized");
  free_communicator(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (!is_alive(communicator, "abort")) return ncclInvalidArgument;
  note("abort");
  finish(communicator);
  free_communicator(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommRevoke(ncclComm_t communicator, int flags) {
  if (!is_alive(communicator, "revoke") || flags != NCCL_REVOKE_DEFAULT) return ncclInvalidArgument;
  if (communicator->finalized || communicator->revoked) return ncclInvalidArgument;
  note("revoke");
  communicator->revoked = true;
  return begin(communicator);
}
ncclResult_t ncclCommShrink(ncclComm_t communicator, int*, int excluded, ncclComm_t* to,
                            ncclConfig_t*, int) {
  if (const ncclResult_t result = ready(communicator, "shrink"); result != ncclSuccess)
    return result;
  if (excluded <= 0) return ncclInvalidArgument;
  note("shrink");
  *to = nullptr;  // written later
  communicator->made_of_this = to;
  return begin(communicator);
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the double"; }

}  // extern "C"
