#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/process_watch.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"

namespace weft::transfer {

class UcxWire;

/// A device that a UcxWire is connected to. Lives as long as the wire, because UCX's callbacks name it.
struct Peer {
  /// An eager message that UCX is done with, but that is not told to be finished: too much before it is still on its way.
  struct Unfinished {
    Token token;
    std::uint64_t end;  // eager_sent with it
  };
  /// One connection: over shared memory, or over one pair of network interfaces.
  struct Way {
    UcxWorker* worker = nullptr;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t eager_sent =
        0;  // bytes, since the connection was made; and those that the peer has told to have taken, and got
    std::uint64_t eager_taken = 0;
    std::uint64_t eager_arrived = 0;
    std::deque<Unfinished> unfinished = {};
    std::size_t at_sender = 0;  // bytes of rendezvous under way
    // Eager bytes of the peer that it has not been told of: taken as they came, kept, taken after that.
    std::size_t consumed = 0, kept = 0, left = 0;
    bool goodbye = false;  // the peer will send nothing more on it

    std::size_t unacknowledged() const { return static_cast<std::size_t>(eager_sent - eager_taken); }
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
    for (const Way& way : ways) sum += way.unacknowledged();
    return sum;
  }
  /// The way that has least to carry; so each carries as much as it can, whatever their speeds.
  std::size_t least_loaded_way() const {
    const auto load = [](const Way& way) { return way.unacknowledged() + way.at_sender; };
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
