#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/clock.h"

namespace weft::transfer {

struct EngineOptions {
  /// kThreaded: the engine has a thread of its own. kStepped: nothing happens outside poll().
  enum class Mode : std::uint8_t { kThreaded, kStepped };
  Mode mode = Mode::kThreaded;
  /// The longest sleep, so that deadlines are seen and nothing depends on one lost wake-up.
  Nanoseconds tick = std::chrono::milliseconds(50);
  /// How long a failed transfer waits for the next of its last messages to end before it cuts the connections they are on.
  Nanoseconds grace = std::chrono::milliseconds(500);
  /// How many streams send to other hosts at a time, of one device and of all devices of its host together (those connected over
  /// shared memory; one each at least). More share the link and all finish late, and at a receiver they make bursts that a switch
  /// drops; fewer leave the link idle where receivers are slow. max_network_streams 0: no limit. Shared memory has none.
  std::size_t max_network_streams = 2;
  std::size_t max_host_streams = 4;
  /// kVerify: every chunk carries its CRC32C, taken where the flow begins and checked wherever it lands, before it is passed on.
  /// All devices of a run should have the same.
  enum class Checksum : std::uint8_t { kOff, kVerify };
  Checksum checksum = Checksum::kOff;
};

}  // namespace weft::transfer
