#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/outcome.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

struct ExchangeState;

/// Options of an exchange. Except for the limits, they are equal on all its devices.
struct ExchangeOptions {
  /// Devices that take part, each once, in the same order everywhere. Includes this device.
  std::vector<DeviceId> ranks;
  /// Limit of the bytes of blocks that one device holds: blocks to send, and blocks that arrived
  /// and are not taken. Memory is allocated as needed.
  std::size_t budget = std::size_t{32} << 20;
  TransferLimits limits = {};
};

/// Division of a budget into blocks.
struct BlockBudget {
  static constexpr std::size_t kMaxBlockBytes = 256 * 1024, kMinBlockBytes = 4 * 1024;
  static constexpr std::uint32_t kMaxCredits = 4;

  std::size_t block_bytes = 0;
  std::uint32_t credits = 0;      ///< Blocks that each other device may send before one is taken.
  std::uint32_t send_blocks = 0;  ///< Blocks that may wait to be sent or be in flight.
  /// Divides `budget` bytes. Blocks are smaller than kMaxBlockBytes if the budget has many ranks
  /// to serve. Throws Error(kInvalidArgument) with the smallest valid budget if blocks would be
  /// below kMinBlockBytes.
  static BlockBudget of(std::size_t num_ranks, std::size_t budget);
};

/// Block that has arrived. Its destructor returns the memory and lets the sender send another
/// block.
class ReceivedBlock final {
 public:
  ReceivedBlock(ReceivedBlock&&) noexcept = default;
  ReceivedBlock& operator=(ReceivedBlock&& other) noexcept;
  ~ReceivedBlock() { give_back(); }

  std::uint32_t from() const { return from_; }  ///< Returns the sender's rank.
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  friend class Exchange;
  ReceivedBlock(std::shared_ptr<ExchangeState> state, std::uint32_t from,
                std::unique_ptr<std::byte[]> memory, std::size_t size)
      : state_(std::move(state)), from_(from), memory_(std::move(memory)), size_(size) {}
  void give_back();

  std::shared_ptr<ExchangeState> state_;
  std::uint32_t from_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_;
};

/// Endpoint of one device in an all-to-all exchange of streams of unknown length, from each rank to
/// each, including itself. Blocks arrive in the order in which they were put.
///
/// Senders send blocks as receivers take them (credits). So no device holds more than its budget,
/// however uneven the streams and however slow a receiver. Blocks share the network with the
/// engine's transfers (EgressOrder) and carry their CRC32C. The exchange ends here when all streams
/// to and from this device have ended and been taken.
///
/// A thread that waits for room to put blocks must keep taking blocks of the same exchange.
///
/// Any thread may call any function. The engine must outlive the exchange and its blocks. Errors
/// end it on all devices that still take part: a peer's death (kPeerDied), a limit
/// (kDeadlineExceeded), cancel(), the engine's cancel() of its epoch and step, and kIncompatible or
/// kDataLoss as for transfers.
class Exchange final {
 public:
  /// Calls `changed`, on any thread, when put() may have room, take_block() may have a block, or
  /// outcome() may have one. Calls may be spurious, also shortly after the destructor.
  /// Throws Error(kInvalidArgument) for invalid ranks or an invalid budget.
  Exchange(TransferEngine& engine, const TransferId& id, ExchangeOptions options,
           std::function<void()> changed);
  /// Cancels the exchange if it has not ended.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::uint32_t rank() const;
  std::uint32_t num_ranks() const;
  std::size_t block_bytes() const;

  /// Copies at most block_bytes() bytes and sends them as one block. Returns false if there is no
  /// room now or the exchange has ended.
  bool put(std::uint32_t rank, std::span<const std::byte> bytes);
  /// Ends the stream to this rank: put() may not be called for it any more.
  void end_stream(std::uint32_t rank);
  /// Ends the streams to all ranks.
  void end_all_streams();
  /// Returns a block that has arrived, if there is one now.
  std::optional<ReceivedBlock> take_block();
  /// Returns the outcome of the exchange once it has ended.
  std::optional<Outcome<void>> outcome() const;
  void cancel(const Error& error);

  /// Returns the payload bytes of blocks sent to other devices.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;

 private:
  const std::shared_ptr<ExchangeState> state_;  // shared with the blocks and the work
};

}  // namespace weft::transfer
