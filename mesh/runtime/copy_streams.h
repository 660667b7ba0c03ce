#pragma once

#include <memory>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/runtime/event_watch.h"
#include "mesh/runtime/staging_pool.h"

namespace weft::mesh {

/// What executions need beside a device's compute stream: a stream for copies to the host, one for
/// copies from it, host memory for both, and for each stream somebody who waits for its events.
/// Used by one execution at a time. Streams and threads are made when they are first needed, which
/// is never where the device computes in the host's memory. Owned by whoever owns the device's
/// streams; owner's thread only.
class CopyStreams final {
  Device& device_;
  std::unique_ptr<Stream> out_, in_;  // end after what waits for their events

 public:
  /// Both must outlive it.
  CopyStreams(Device& device, const Clock& clock)
      : device_(device), staging(device), computed(clock), copied_out(clock), copied_in(clock) {}

  /// The host may read and write the device's memory: nothing is copied.
  bool host_memory() const { return device_.is_host_memory(); }
  Stream& out() { return made(out_); }
  Stream& in() { return made(in_); }

  StagingPool staging;
  EventWatch computed;  ///< Of the compute stream.
  EventWatch copied_out;
  EventWatch copied_in;

 private:
  Stream& made(std::unique_ptr<Stream>& stream) {
    if (stream == nullptr) stream = device_.create_stream();
    return *stream;
  }
};

}  // namespace weft::mesh
