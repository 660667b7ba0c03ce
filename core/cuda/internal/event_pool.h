#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/device/device.h"

struct CUevent_st;
struct CUstream_st;

namespace weft {

/// Pool of reusable CUDA events of one GPU. Thread-safe.
class EventPool final {
 public:
  explicit EventPool(int gpu) : gpu_(gpu) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  CUevent_st* take();
  void give_back(CUevent_st* event) noexcept;
  /// Makes the events' GPU the current device of the calling thread. Otherwise CUDA would
  /// initialise another GPU for it.
  void make_current() const;

 private:
  const int gpu_;
  std::mutex mutex_;
  std::vector<CUevent_st*> idle_;  // guarded by mutex_
};

/// Event of a CUDA stream.
class CudaEvent final : public Event {
 public:
  /// Records the end of the work queued on the stream. Throws cuda_error() on failure.
  CudaEvent(std::shared_ptr<EventPool> pool, CUstream_st* stream);
  ~CudaEvent() override { pool_->give_back(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() const override;
  void synchronize() const override;
  CUevent_st* handle() const { return event_; }

 private:
  const std::shared_ptr<EventPool> pool_;  // an event may outlive its device
  CUevent_st* const event_;
};

}  // namespace weft
