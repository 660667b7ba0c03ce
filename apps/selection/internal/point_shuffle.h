#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "actors/call/task.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/shard_spills.h"
#include "core/codec/bytes.h"
#include "mesh/exchange/exchange.h"

namespace weft::apps {

/// Shuffle of records about points: each record is sent to the owner of its point, and the owner
/// groups them by shard. All ranks take part. For use in an actor's handler:
///
///   PointShuffle shuffle(session, {.number = phase, .budget = 16 << 20}, "edges", kEdgeBytes);
///   for (...) {
///     while (!shuffle.append(record)) co_await shuffle.flush();
///   }
///   co_await shuffle.finish();
///   for (const std::uint32_t shard : session.shards())
///     shuffle.drain(shard, [&](ByteReader& record) { ... });
///
/// Arrived records beyond a block a shard are in files of the session's spill folder. Actor's
/// thread only. The session must outlive it.
class PointShuffle final {
 public:
  /// `name` begins the names of the spill files. A record has `record_bytes` bytes, and begins with
  /// the id of its point.
  PointShuffle(WorkerSession& session, const mesh::ActorExchange::Options& options,
               std::string name, std::size_t record_bytes)
      : session_(session),
        arrived_(session.spill_folder(), std::move(name), session.layout(), record_bytes),
        exchange_(session.port(), options,
                  [this](const transfer::ReceivedBlock& block) { arrived_.add(block.bytes()); }) {}

  /// Appends a record for the owner of its point. Returns false if the owner's block is full: call
  /// flush(), then append() again.
  bool append(const ByteWriter& record) {
    to_ = session_.owner_of(ByteReader(record.bytes()).read<PointId>());
    return exchange_.append(to_, record.bytes());
  }
  /// Sends the block to which the last append() did not fit.
  actors::task<> flush() { return exchange_.flush(to_); }
  /// Waits until all records of all ranks have arrived. Throws the exchange's error.
  actors::task<> finish() {
    co_await exchange_.finish();
    arrived_.commit();
  }

  /// Returns true if records of the shard have arrived and are not drained.
  bool has(std::uint32_t shard) const { return arrived_.has(shard); }
  /// Calls `visit` with each record of the shard in order of arrival, and removes them.
  template <typename Visit>
  void drain(std::uint32_t shard, const Visit& visit) {
    arrived_.drain(shard, visit);
  }

 private:
  WorkerSession& session_;
  ShardSpills arrived_;
  mesh::ActorExchange exchange_;
  std::uint32_t to_ = 0;  ///< Rank of the last append().
};

}  // namespace weft::apps
