#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/log/log.h"
#include "transfer/flow/egress_limit.h"

namespace weft::transfer {

/// Host memory with shared ownership.
using StagingMemory = std::shared_ptr<std::byte[]>;

struct EngineOptions {
  /// Threading of the engine. kThreaded: it has its own thread. kStepped: it works only inside
  /// poll().
  enum class Mode : std::uint8_t { kThreaded, kStepped };
  Mode mode = Mode::kThreaded;
  /// Longest sleep of the engine's thread. It bounds the delay of deadlines and of a lost wake-up.
  Nanoseconds tick = std::chrono::milliseconds(50);
  /// Time that a failed transfer waits for its next message in flight to end. Afterwards it cuts
  /// the connections of these messages.
  Nanoseconds failure_grace = std::chrono::milliseconds(500);
  /// Time that the engine's destructor waits for messages in flight to end. Afterwards it cuts
  /// their connections.
  Nanoseconds shutdown_grace = std::chrono::seconds(3);
  /// Limit on concurrent sends. The devices of a host are those connected over shared memory.
  EgressLimit egress = {};
  /// Checksums of chunks. kVerify: every chunk carries the CRC32C taken at the flow's root, and
  /// each receiver checks it before forwarding. All devices of a run should use the same value.
  enum class Checksum : std::uint8_t { kOff, kVerify };
  Checksum checksum = Checksum::kOff;
  /// Allocator of staging memory, in which chunks are packed, wait to be unpacked and are summed.
  /// Empty: the heap. Called on the transfer thread with powers of two; the memory is reused. A GPU
  /// device supplies pinned memory here, which it copies faster.
  std::function<StagingMemory(std::size_t)> staging = {};
  /// Log of dropped messages, at most one line every ten seconds. Empty: drops are only counted.
  std::optional<Log> log = {};
};

}  // namespace weft::transfer
