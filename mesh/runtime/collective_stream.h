#pragma once

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/runtime/event_watch.h"
#include "transfer/nccl/collective_queue.h"

namespace weft::mesh {

/// Queue of device collectives with its own stream, and the watch of that stream's events. Owned by
/// the owner of the device's streams; owner's thread only.
struct CollectiveStream {
  /// All references must outlive it.
  CollectiveStream(transfer::DeviceId self, transfer::DeviceCollectives& library, Device& device,
                   const Clock& clock, transfer::CollectiveQueueOptions options = {})
      : stream_events(clock), queue(self, library, device, clock, options) {}

  /// Watches the queue's stream. Destroyed after the queue, which ends the work that the events
  /// wait for.
  EventWatch stream_events;
  transfer::CollectiveQueue queue;
};

}  // namespace weft::mesh
