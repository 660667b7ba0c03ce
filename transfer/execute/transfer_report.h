#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/flow/landed_chunks.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Result of one transfer on this device. A value.
struct TransferReport {
  TransferId id;
  Outcome<void> outcome;
  TimePoint started;  ///< Time at which the engine started the transfer.
  /// Time at which its first bytes were announced or arrived; `started` if nothing arrives.
  TimePoint moving;
  TimePoint finished;  ///< Time at which its last byte had left and landed.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  /// Chunks that have landed in this device's destinations despite an error, per flow that it
  /// receives. They stay valid. No chunk of a flow that is not listed has landed.
  std::vector<LandedChunks> landed = {};
};

/// Payload that this device and one peer have exchanged since the engine began.
struct PeerCounters {
  Path path = Path::kLoopback;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t chunks_sent = 0;
  std::uint64_t chunks_received = 0;
};

/// Statistics of an engine since its start. A value.
struct EngineCounters {
  std::map<DeviceId, PeerCounters> peers;
  std::uint64_t transfers_started = 0;
  std::uint64_t transfers_finished = 0;
  std::uint64_t transfers_failed = 0;
  /// Messages that arrived and that no transfer here expects: from unknown senders, damaged, or of
  /// finished transfers.
  std::uint64_t messages_dropped = 0;
  /// Chunks that arrived before their transfer was started here.
  std::uint64_t early_chunks = 0;
  std::uint64_t peak_staging_bytes = 0;  ///< Peak of the staging memory.
  /// Peak number of streams that sent to other hosts at once.
  std::uint64_t peak_network_streams = 0;
  /// Bytes per second that the network takes from this device while it is sending (see RateMeter).
  /// 0: unknown.
  double egress_rate = 0;
  std::uint64_t chunks_arriving = 0;  ///< Receives in flight at present.

  std::uint64_t bytes_sent(Path path) const;
  std::uint64_t bytes_received(Path path) const;
};

/// Formats the counters, such as "3 transfers, tcp sent 1.5 MiB received 3 MiB".
std::string to_string(const EngineCounters& counters);

}  // namespace weft::transfer
