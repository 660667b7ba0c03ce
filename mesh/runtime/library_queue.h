#pragma once

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/runtime/event_watch.h"
#include "transfer/nccl/collective_queue.h"

namespace weft::mesh {

/// What executions need whose transfers go by the library of the GPUs: the queue with its own
/// stream, and somebody who waits for the events of that. Owned by whoever owns the device's
/// streams; owner's thread only.
struct LibraryQueue {
  /// All must outlive it.
  LibraryQueue(transfer::DeviceId self, transfer::DeviceCollectives& library, Device& device,
               const Clock& clock, transfer::CollectiveQueueOptions options = {})
      : passed(clock), queue(self, library, device, clock, options) {}

  /// Of the queue's stream. Ends after the queue, which ends what the events wait for.
  EventWatch passed;
  transfer::CollectiveQueue queue;
};

}  // namespace weft::mesh
