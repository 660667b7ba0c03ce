#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/flow/landed.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// How one transfer of this device ended. A value.
struct TransferReport {
  TransferId id;
  Outcome<void> outcome;
  TimePoint started;  ///< When the engine took it up.
  /// When its first bytes were known to come; `started` where nothing arrives.
  TimePoint moving;
  TimePoint finished;  ///< When its last byte had left and landed.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  /// After an error, per flow that this device was to receive: what lies in its destinations all
  /// the same, and stays valid. A flow that is not named: nothing.
  std::vector<LandedChunks> landed = {};
};

/// Payload that crossed between this device and one peer since the engine began.
struct PeerCounters {
  Path path = Path::kLoopback;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t chunks_sent = 0;
  std::uint64_t chunks_received = 0;
};

/// What an engine has done so far. A value.
struct EngineCounters {
  std::map<DeviceId, PeerCounters> peers;
  std::uint64_t transfers_started = 0;
  std::uint64_t transfers_finished = 0;
  std::uint64_t transfers_failed = 0;
  /// That came and that no transfer here wants: of strangers, damaged, of what is over.
  std::uint64_t messages_dropped = 0;
  /// Chunks that arrived before their transfer was started here.
  std::uint64_t early_chunks = 0;
  std::uint64_t peak_staging_bytes = 0;    ///< The most memory chunks were staged in at once.
  std::uint64_t peak_network_streams = 0;  ///< The most streams that sent to other hosts at once.
  /// What the network takes from this device, in bytes per second, while it has something to send
  /// (RateMeter); 0: not known.
  double egress_rate = 0;
  std::uint64_t chunks_arriving = 0;  ///< Now: their receives are under way.

  std::uint64_t bytes_sent(Path path) const;
  std::uint64_t bytes_received(Path path) const;
};

/// "sent 1.5 MiB tcp 3 MiB shm, received ...".
std::string to_string(const EngineCounters& counters);

}  // namespace weft::transfer
