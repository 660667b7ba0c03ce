#include "transfer/nccl_plugin/internal/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/check.h"
#include "transfer/nccl_plugin/internal/nccl_check.h"

namespace weft::transfer {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return ncclFloat32;
    case DType::kI32: return ncclInt32;
    case DType::kF64: return ncclFloat64;
    case DType::kU8: return ncclUint8;
    case DType::kBF16: return ncclBfloat16;
  }
  WEFT_CHECK(false, "type {}", static_cast<int>(dtype));
}

}  // namespace

NcclCommunicator::NcclCommunicator(int gpu, const ncclUniqueId& id, int size, int rank,
                                   int max_blocks, std::string name)
    : gpu_(gpu), name_(std::move(name)) {
  use_gpu(gpu_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = max_blocks;
  config.commName = name_.c_str();
  const ncclResult_t result = ncclCommInitRankConfig(&communicator_, size, id, rank, &config);
  if (result == ncclSuccess || result == ncclInProgress) return;
  const Error error = nccl_error(
      result, fmt::format("creating rank {} of {} of the communicator '{}'", rank, size, name_));
  if (communicator_ != nullptr) ncclCommAbort(communicator_);
  throw Error(error);
}

NcclCommunicator::NcclCommunicator(const NcclCommunicator& parent, Slot slot,
                                   std::span<const int> excluded_ranks)
    : gpu_(parent.gpu_),
      name_(parent.name_ + " without dead ranks"),
      parent_(parent.communicator_),
      location_(std::move(slot)) {
  use_gpu(gpu_);
  std::vector<int> excluded(excluded_ranks.begin(), excluded_ranks.end());
  check_nccl(ncclCommShrink(parent_, excluded.data(), excluded.size(), location_.get(), nullptr,
                            NCCL_SHRINK_DEFAULT),
             fmt::format("making '{}'", name_), parent_);
}

NcclCommunicator::~NcclCommunicator() {
  if (finalized_ && communicator_ != nullptr) {
    ncclCommDestroy(communicator_);
  } else {
    abort();
  }
}

DeviceCommunicator::State NcclCommunicator::state_of(ncclComm_t communicator) const {
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(communicator, &state),
             fmt::format("asking for the state of the communicator '{}'", name_), communicator);
  check_nccl(state, fmt::format("the communicator '{}'", name_), communicator);
  return state == ncclInProgress ? State::kBusy : State::kReady;
}

DeviceCommunicator::State NcclCommunicator::poll() {
  if (parent_ != nullptr) {
    if (state_of(parent_) == State::kBusy) return State::kBusy;
    parent_ = nullptr;
    communicator_ = std::exchange(*location_, nullptr);
  }
  if (communicator_ == nullptr)
    throw_error(ErrorCode::kFailedPrecondition, "the communicator '{}' was aborted", name_);
  const State state = state_of(communicator_);
  if (state == State::kReady) {
    created_ = true;
    finalized_ = finalizing_;
  }
  return state;
}

ncclResult_t NcclCommunicator::issue(const DeviceCall& call, void* stream) const {
  const auto to = static_cast<cudaStream_t>(stream);
  const ncclDataType_t type = type_of(call.dtype);
  const ncclRedOp_t op = call.op == ReduceOp::kSum ? ncclSum : ncclMax;
  switch (call.kind) {
    case CallKind::kBroadcast: {
      // The root's own buffer is both source and destination; NCCL then does not write it.
      std::byte* out = call.to == nullptr ? const_cast<std::byte*>(call.from) : call.to;
      return ncclBroadcast(call.from == nullptr ? out : call.from, out, call.count, type, call.peer,
                           communicator_, to);
    }
    case CallKind::kSend:
      return ncclSend(call.from, call.count, type, call.peer, communicator_, to);
    case CallKind::kReceive:
      return ncclRecv(call.to, call.count, type, call.peer, communicator_, to);
    case CallKind::kAllReduce:
      return ncclAllReduce(call.from, call.to, call.count, type, op, communicator_, to);
    case CallKind::kReduceScatter:
      return ncclReduceScatter(call.from, call.to, call.count, type, op, communicator_, to);
    case CallKind::kAllGather:
      return ncclAllGather(call.from, call.to, call.count, type, communicator_, to);
  }
  WEFT_CHECK(false, "call {}", static_cast<int>(call.kind));
}

void NcclCommunicator::enqueue(std::span<const DeviceCall> calls, weft::Stream& stream) {
  if (communicator_ == nullptr)
    throw_error(ErrorCode::kFailedPrecondition, "the communicator '{}' was aborted", name_);
  use_gpu(gpu_);
  const std::string what = fmt::format(
      "{} operations of the communicator '{}', the first of them {} of {} {}", calls.size(), name_,
      to_string(calls.front().kind), calls.front().count, to_string(calls.front().dtype));
  check_nccl(ncclGroupStart(), what, communicator_);
  ncclResult_t failed = ncclSuccess;
  for (const DeviceCall& call : calls) {
    const ncclResult_t result = issue(call, stream.native_handle());
    if (result != ncclSuccess && result != ncclInProgress && failed == ncclSuccess) failed = result;
  }
  // called even after a failure: a group must not stay open
  const ncclResult_t ended = ncclGroupEnd();
  check_nccl(failed, what, communicator_);
  check_nccl(ended, what, communicator_);
}

void NcclCommunicator::finalize() {
  use_gpu(gpu_);
  finalizing_ = true;
  check_nccl(ncclCommFinalize(communicator_), fmt::format("ending the communicator '{}'", name_),
             communicator_);
}

void NcclCommunicator::stop() noexcept {
  // A communicator that is still being created has no work on the device, and cannot be revoked.
  if (communicator_ == nullptr || !created_) return;
  cudaSetDevice(gpu_);
  // NCCL rejects a second revoke, and one after the end; both are harmless.
  ncclCommRevoke(communicator_, NCCL_REVOKE_DEFAULT);
}

void NcclCommunicator::abort() noexcept {
  if (communicator_ == nullptr) return;
  cudaSetDevice(gpu_);
  ncclCommAbort(communicator_);
  communicator_ = nullptr;
  // The shrunk communicator may still be in creation, without an owner.
  if (child_location_ != nullptr && *child_location_ != nullptr)
    ncclCommAbort(std::exchange(*child_location_, nullptr));
}

std::unique_ptr<DeviceCommunicator> NcclCommunicator::shrink(std::span<const int> excluded_ranks) {
  child_location_ = std::make_shared<ncclComm_t>(nullptr);
  return std::unique_ptr<DeviceCommunicator>(
      new NcclCommunicator(*this, child_location_, excluded_ranks));
}

}  // namespace weft::transfer
