#include "core/cuda/internal/event_pool.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "core/cuda/internal/cuda_call.h"

namespace weft {

EventPool::~EventPool() {
  cudaSetDevice(gpu_);
  for (CUevent_st* event : idle_) cudaEventDestroy(event);
  cudaGetLastError();
}

CUevent_st* EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      CUevent_st* const event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  make_current();
  CUevent_st* event = nullptr;
  // Threads that wait for the event block: by default they would each keep a core busy.
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
             "making an event");
  return event;
}

void EventPool::make_current() const {
  check_cuda(cudaSetDevice(gpu_), "making a GPU the thread's");
}

void EventPool::give_back(CUevent_st* event) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(event);
}

CudaEvent::CudaEvent(std::shared_ptr<EventPool> pool, CUstream_st* stream)
    : pool_(std::move(pool)), event_(pool_->take()) {
  if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
    pool_->give_back(event_);
    throw cuda_error(status, "recording an event");
  }
}

bool CudaEvent::done() const {
  pool_->make_current();
  const cudaError_t status = cudaEventQuery(event_);
  // Clears the runtime's last error: a query that finds unfinished work counts as one, and the next
  // launch would report it.
  if (status != cudaSuccess) cudaGetLastError();
  return status != cudaErrorNotReady;
}

void CudaEvent::synchronize() const {
  pool_->make_current();
  check_cuda(cudaEventSynchronize(event_), "work on the GPU failed before an event");
}

}  // namespace weft
