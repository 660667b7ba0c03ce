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

class Exchange;

/// What an actor reaches the other ranks of its exchanges by: its end of the data plane.
///
/// Member of an actor, whose `open` and `connect` hand what a RankConnector calls to it. Actor's
/// thread.
class ExchangePort final {
 public:
  explicit ExchangePort(actors::Context& context) : context_(context) {}

  /// Gives this process's address. Again for a later epoch: what is under way ends, connections are
  /// new.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup);
  /// All ranks, by rank.
  void connect(const std::vector<transfer::PeerAddress>& peers);
  /// Ends what is under way, here and on other ranks, and what begins before the next open(): so
  /// that a handler that waits for another rank ends with `error`. For an urgent method, when a
  /// rank has died.
  void cancel(const Error& error);

  bool is_connected() const { return !ranks_.empty(); }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t num_ranks() const { return static_cast<std::uint32_t>(ranks_.size()); }
  /// Payload sent to other ranks since the actor began.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  friend class Exchange;
  /// Throws where no exchange of that number can begin.
  transfer::TransferEngine& engine_for(std::uint64_t number);

  actors::Context& context_;
  SteadyClock clock_;
  std::uint64_t epoch_ = 0;
  std::uint32_t rank_ = 0;
  std::vector<transfer::DeviceId> ranks_;
  std::uint64_t bytes_sent_ = 0;
  std::optional<Error> cancelled_;
  std::set<std::uint64_t> numbers_;  ///< Used in this epoch.
  std::set<Exchange*> exchanges_;    ///< Under way; they end themselves before the port does.
  std::unique_ptr<transfer::TransferEngine> engine_;
};

/// One exchange of an actor with the other ranks, for its handlers (see transfer::Exchange):
///
///   Exchange exchange(port_, {.number = phase, .budget = 32 << 20}, [&](const auto& block) {
///     absorb(block.from(), block.bytes());
///   });
///   for (...) {
///     while (!exchange.append(rank, record)) co_await exchange.flush(rank);
///   }
///   co_await exchange.finish();
///
/// What comes is handed to `take` while the handler waits in put(), flush() and finish(). Without
/// `take` it waits for next(). Errors come out of the waits: Error(kPeerDied) and others.
/// Actor's thread. The port must outlive it.
class Exchange final {
 public:
  struct Options {
    /// Of the exchange, equal on all ranks, and of no other one in this epoch.
    std::uint64_t number = 0;
    std::size_t budget = std::size_t{32} << 20;  ///< See transfer::ExchangeOptions.
    transfer::TransferLimits limits = {};
  };
  using Take = std::function<void(const transfer::ReceivedBlock&)>;

  Exchange(ExchangePort& port, const Options& options, Take take = {});
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::uint32_t num_ranks() const { return exchange_.num_ranks(); }
  std::size_t block_bytes() const { return exchange_.block_bytes(); }

  /// Sends these bytes as a block of its own, in whole blocks if they are more than one holds.
  actors::task<> put(std::uint32_t rank, std::span<const std::byte> bytes);
  /// Adds a record to the block that is filled for `rank`. False: it must be flushed first.
  bool append(std::uint32_t rank, std::span<const std::byte> record);
  /// Sends the block that is filled for `rank`, if anything is in it.
  actors::task<> flush(std::uint32_t rank);
  /// Flushes all, and puts nothing more.
  actors::task<> end();
  /// A block that has come; nothing when there will be none.
  actors::task<std::optional<transfer::ReceivedBlock>> next();
  /// Ends, and waits until all is taken, here and by the other ranks.
  actors::task<> finish();

 private:
  friend class ExchangePort;
  /// Hands over what is here; false: nothing was.
  bool take_all();
  void throw_if_failed() const;

  ExchangePort& port_;
  const Take take_;
  actors::Wakeup wakeup_;
  transfer::Exchange exchange_;
  std::vector<std::vector<std::byte>> filled_;  ///< By rank.
};

}  // namespace weft::mesh
