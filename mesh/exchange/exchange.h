#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/system/context.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "transfer/exchange/exchange.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/wires/data_plane.h"

namespace weft::mesh {

class ActorExchange;

/// Actor's end of the data plane, through which it reaches the other ranks. Member of an actor,
/// which forwards the calls of a DataPlaneConnector to `open` and `connect`. Actor's thread only.
class DataPlaneEndpoint final {
 public:
  explicit DataPlaneEndpoint(actors::Context& context) : context_(context) {}

  /// Opens the data plane and returns this process's address. A call for a later epoch ends running
  /// exchanges and replaces all connections.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup);
  /// Connects to all ranks. `peers`: one per rank, in the order of ranks.
  void connect(const std::vector<transfer::PeerAddress>& peers);
  /// Ends running exchanges, here and on other ranks, and all new ones until the next open().
  /// Handlers that wait for another rank throw `error`. Call from an urgent method when a rank has
  /// died.
  void cancel(const Error& error);

  bool is_connected() const { return !ranks_.empty(); }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t num_ranks() const { return static_cast<std::uint32_t>(ranks_.size()); }
  /// Payload bytes sent to other ranks since the actor was created.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  friend class ActorExchange;
  /// Throws Error(kFailedPrecondition) before connect() or if `number` was used; after cancel(),
  /// its error.
  transfer::TransferEngine& engine_for(std::uint64_t number);

  actors::Context& context_;
  SteadyClock clock_;
  std::uint64_t epoch_ = 0;
  std::uint32_t rank_ = 0;
  std::vector<transfer::DeviceId> ranks_;
  std::uint64_t bytes_sent_ = 0;
  std::optional<Error> cancelled_;
  std::set<std::uint64_t> numbers_;     ///< Numbers used in this epoch.
  std::set<ActorExchange*> exchanges_;  ///< Running exchanges. The port must outlive them.
  std::unique_ptr<transfer::TransferEngine> engine_;
};

/// All-to-all exchange between an actor and the other ranks, for use in its handlers (see
/// transfer::Exchange):
///
///   ActorExchange exchange(port_, {.number = phase, .budget = 32 << 20}, [&](const auto& block) {
///     absorb(block.from(), block.bytes());
///   });
///   for (...) {
///     while (!exchange.append(rank, record)) co_await exchange.flush(rank);
///   }
///   co_await exchange.finish();
///
/// Passes received blocks to `take` while the handler waits in send_block(), flush() or finish();
/// without `take`, next() returns them. Waits throw the exchange's error, such as Error(kPeerDied).
/// Actor's thread only. The port must outlive the exchange.
class ActorExchange final {
 public:
  struct Options {
    /// Number of the exchange. Equal on all ranks; unique within the epoch.
    std::uint64_t number = 0;
    std::size_t budget = std::size_t{32} << 20;  ///< See transfer::ExchangeOptions.
    transfer::TransferLimits limits = {};
  };
  using BlockHandler = std::function<void(const transfer::ReceivedBlock&)>;

  ActorExchange(DataPlaneEndpoint& port, const Options& options, BlockHandler take = {});
  ~ActorExchange();
  ActorExchange(const ActorExchange&) = delete;
  ActorExchange& operator=(const ActorExchange&) = delete;

  std::uint32_t num_ranks() const { return exchange_.num_ranks(); }
  std::size_t block_bytes() const { return exchange_.block_bytes(); }

  /// Sends `bytes` as one block, or as several if they exceed block_bytes().
  actors::task<> send_block(std::uint32_t rank, std::span<const std::byte> bytes);
  /// Appends a record to the block being filled for `rank`. Returns false if the block is full:
  /// flush it first.
  bool append(std::uint32_t rank, std::span<const std::byte> record);
  /// Sends the block being filled for `rank`, unless it is empty.
  actors::task<> flush(std::uint32_t rank);
  /// Flushes all blocks and ends this rank's streams.
  actors::task<> end();
  /// Waits for a block. Returns nothing when no more blocks will come.
  actors::task<std::optional<transfer::ReceivedBlock>> next();
  /// Calls end(), then waits until all ranks have taken all blocks.
  actors::task<> finish();

 private:
  friend class DataPlaneEndpoint;
  /// Passes all received blocks to `take`. Returns false if there were none.
  bool take_all();
  void throw_if_failed() const;

  DataPlaneEndpoint& port_;
  const BlockHandler take_;
  actors::Wakeup wakeup_;
  transfer::Exchange exchange_;
  std::vector<std::vector<std::byte>> filled_;  ///< Blocks being filled, by rank.
};

}  // namespace weft::mesh
