#pragma once

#include <memory>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/runtime/event_watch.h"
#include "mesh/runtime/staging_pool.h"

namespace weft::mesh {

/// Copy streams of a device's executions, beside its compute stream: one to the host, one from it,
/// with staging memory and a thread per stream that waits for events. Used by one execution at a
/// time. Streams and threads are created on first use; never if the device computes in host memory.
/// Owned by the owner of the device's streams; owner's thread only.
class CopyStreams final {
  Device& device_;
  std::unique_ptr<Stream> out_, in_;  // destroyed after the watches of their events

 public:
  /// `device` and `clock` must outlive it.
  CopyStreams(Device& device, const Clock& clock)
      : device_(device), staging(device), computed(clock), copied_out(clock), copied_in(clock) {}

  /// True if the host can read and write the device's memory; then nothing is copied.
  bool host_memory() const { return device_.is_host_memory(); }
  Stream& out() { return made(out_); }
  Stream& in() { return made(in_); }

  StagingPool staging;
  EventWatch computed;  ///< Events of the compute stream.
  EventWatch copied_out;
  EventWatch copied_in;

 private:
  Stream& made(std::unique_ptr<Stream>& stream) {
    if (stream == nullptr) stream = device_.create_stream();
    return *stream;
  }
};

}  // namespace weft::mesh
