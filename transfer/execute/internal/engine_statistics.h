#pragma once

#include <cstddef>
#include <mutex>
#include <optional>

#include "transfer/execute/transfer_report.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// EngineCounters of an engine, counted on its transfer thread and read by others. Any thread.
class EngineStatistics final {
 public:
  EngineCounters counters() const {
    const std::scoped_lock lock(mutex_);
    return counters_;
  }

  void peer_connected(DeviceId peer, Path path) {
    const std::scoped_lock lock(mutex_);
    counters_.peers[peer].path = path;
  }
  void transfer_started() {
    const std::scoped_lock lock(mutex_);
    ++counters_.transfers_started;
  }
  /// State of the engine that counters show, as of the last transfer that ended.
  struct Gauges {
    std::size_t peak_staging_bytes;
    std::size_t peak_network_streams;
    double egress_rate;
  };
  void transfer_ended(bool ok, const Gauges& gauges) {
    const std::scoped_lock lock(mutex_);
    ++(ok ? counters_.transfers_finished : counters_.transfers_failed);
    counters_.peak_staging_bytes = gauges.peak_staging_bytes;
    counters_.peak_network_streams = gauges.peak_network_streams;
    counters_.egress_rate = gauges.egress_rate;
  }
  void chunk_sent(DeviceId peer, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    PeerCounters& counters = counters_.peers[peer];
    counters.bytes_sent += bytes;
    ++counters.chunks_sent;
  }
  void chunk_arrived_early() {
    const std::scoped_lock lock(mutex_);
    ++counters_.early_chunks;
  }
  void receive_began() {
    const std::scoped_lock lock(mutex_);
    ++counters_.chunks_arriving;
  }
  /// Counts the end of a receive. `bytes`: size of the chunk; empty: it was not received.
  void receive_ended(DeviceId peer, std::optional<std::size_t> bytes) {
    const std::scoped_lock lock(mutex_);
    --counters_.chunks_arriving;
    if (bytes) count_received(peer, *bytes);
  }
  /// Counts a chunk that was read in place.
  void chunk_received(DeviceId peer, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    count_received(peer, bytes);
  }
  void message_dropped() {
    const std::scoped_lock lock(mutex_);
    ++counters_.messages_dropped;
  }

 private:
  void count_received(DeviceId peer, std::size_t bytes) {
    PeerCounters& counters = counters_.peers[peer];
    counters.bytes_received += bytes;
    ++counters.chunks_received;
  }

  mutable std::mutex mutex_;  // guards counters_
  EngineCounters counters_;
};

}  // namespace weft::transfer
