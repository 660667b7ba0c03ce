#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/log/log.h"
#include "transfer/flow/egress_rule.h"

namespace weft::transfer {

/// Host memory and whoever owns it.
using StagingMemory = std::shared_ptr<std::byte[]>;

struct EngineOptions {
  /// kThreaded: the engine has a thread of its own. kStepped: nothing happens outside poll().
  enum class Mode : std::uint8_t { kThreaded, kStepped };
  Mode mode = Mode::kThreaded;
  /// The longest sleep, so that deadlines are seen and nothing depends on one lost wake-up.
  Nanoseconds tick = std::chrono::milliseconds(50);
  /// How long a failed transfer waits for the next of its last messages to end before it cuts the
  /// connections they are on.
  Nanoseconds grace = std::chrono::milliseconds(500);
  /// How long an engine that is being destroyed waits for its last messages to end before it cuts
  /// the connections they are on.
  Nanoseconds last_messages = std::chrono::seconds(3);
  /// The devices of its host: those connected over shared memory.
  EgressRule egress = {};
  /// kVerify: every chunk carries its CRC32C, taken where the flow begins and checked wherever it
  /// lands, before it is passed on. All devices of a run should have the same.
  enum class Checksum : std::uint8_t { kOff, kVerify };
  Checksum checksum = Checksum::kOff;
  /// Where chunks are packed, wait to be unpacked and are summed up; none: the heap. Called on the
  /// transfer thread for powers of two; what it gives is kept and used again. A GPU's device gives
  /// memory here that its copies are fast with (pinned).
  std::function<StagingMemory(std::size_t)> staging = {};
  /// Where messages that are dropped are told of, a line every ten seconds at most; none: they are
  /// only counted.
  std::optional<Log> log = {};
};

}  // namespace weft::transfer
