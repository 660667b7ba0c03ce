#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/device/device.h"

struct CUevent_st;
struct CUstream_st;

namespace weft {

/// CUDA events of one GPU, made once and used again. Any thread.
class EventPool final {
 public:
  explicit EventPool(int gpu) : gpu_(gpu) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  CUevent_st* take();
  void give_back(CUevent_st* event) noexcept;
  /// Makes the events' GPU the calling thread's, which may be any thread: CUDA would start another
  /// GPU for it.
  void make_current() const;

 private:
  const int gpu_;
  std::mutex mutex_;
  std::vector<CUevent_st*> idle_;  // guarded by mutex_
};

/// A place in a CUDA stream.
class CudaEvent final : public Event {
 public:
  /// Records the end of what is queued on the stream. Throws what cuda_error() makes of a failure.
  CudaEvent(std::shared_ptr<EventPool> pool, CUstream_st* stream);
  ~CudaEvent() override { pool_->give_back(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() const override;
  void synchronize() const override;
  CUevent_st* handle() const { return event_; }

 private:
  const std::shared_ptr<EventPool> pool_;  // an event may outlive its device's other users
  CUevent_st* const event_;
};

}  // namespace weft
