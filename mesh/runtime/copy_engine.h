#pragma once

#include <memory>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/runtime/event_watch.h"
#include "mesh/runtime/staging_pool.h"

namespace weft::mesh {

/// What executions on a device need that runs by itself, in memory of its own, beside its compute
/// stream: a stream for copies to the host, one for copies from it, host memory for both, and for
/// each stream somebody who waits for its events. Owned by whoever owns the device's streams;
/// owner's thread only.
struct CopyEngine {
  CopyEngine(Device& device, const Clock& clock)
      : out(device.create_stream()),
        in(device.create_stream()),
        staging(device),
        computed(clock),
        copied_out(clock),
        copied_in(clock) {}

  std::unique_ptr<Stream> out;
  std::unique_ptr<Stream> in;
  StagingPool staging;
  EventWatch computed;  ///< Of the compute stream.
  EventWatch copied_out;
  EventWatch copied_in;
};

}  // namespace weft::mesh
