#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/process_watch.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"

namespace weft::transfer {

class UcxWire;

/// A device that a UcxWire is connected to. Lives as long as the wire, because UCX's callbacks name it.
struct Peer {
  /// One connection: over shared memory, or over one pair of network interfaces.
  struct Way {
    UcxWorker* worker = nullptr;
    ucp_ep_h endpoint = nullptr;
    std::size_t unacknowledged = 0;  // eager bytes sent that the peer has not told to have taken
    std::size_t at_sender = 0;       // bytes of rendezvous under way
    std::size_t consumed = 0;        // eager bytes of the peer taken here that it has not been told of
    bool goodbye = false;            // the peer will send nothing more on it
  };
  enum class End { kNone, kFailed, kDropped };

  DeviceId id;
  UcxWire* wire = nullptr;
  std::vector<Way> ways;
  ProcessWatch process;  // of those reached through shared memory
  Path path = Path::kTcp;
  End end = End::kNone;
  std::string cause;  // of kFailed
  std::size_t eager_limit = 0;

  std::size_t unacknowledged() const {
    std::size_t sum = 0;
    for (const Way& way : ways) sum += way.unacknowledged;
    return sum;
  }
  /// The way that has least to carry; so each carries as much as it can, whatever their speeds.
  std::size_t least_loaded_way() const {
    const auto load = [](const Way& way) { return way.unacknowledged + way.at_sender; };
    const auto least = std::min_element(ways.begin(), ways.end(), [&](const Way& a, const Way& b) { return load(a) < load(b); });
    return static_cast<std::size_t>(least - ways.begin());
  }
  void fail(std::string why) {
    if (end != End::kNone) return;
    end = End::kFailed;
    cause = std::move(why);
  }
};

}  // namespace weft::transfer
