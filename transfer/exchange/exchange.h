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

/// What all devices of an exchange must agree on, but for the limits.
struct ExchangeOptions {
  /// All that take part, each once, in the same order everywhere; this device is one of them.
  std::vector<DeviceId> ranks;
  /// The most bytes of blocks that one device holds: those to be sent, those that have come and are
  /// not taken. Memory is allocated as it is needed.
  std::size_t budget = std::size_t{32} << 20;
  TransferLimits limits = {};
};

/// How a budget is used.
struct ExchangeSizes {
  static constexpr std::size_t kMostBlockBytes = 256 * 1024, kLeastBlockBytes = 4 * 1024;
  static constexpr std::uint32_t kMostCredits = 4;

  std::size_t block_bytes = 0;
  std::uint32_t credits = 0;     ///< Blocks that each other device may send before one is taken.
  std::uint32_t out_blocks = 0;  ///< That wait to be sent, or are under way.
  /// Blocks are smaller than kMostBlockBytes where there are many ranks for the budget. Throws
  /// Error(kInvalidArgument), naming the least budget, where they would be below kLeastBlockBytes.
  static ExchangeSizes of(std::size_t num_ranks, std::size_t budget);
};

/// A block that has come. Its memory, and the right to send another one, go back when it ends.
class ReceivedBlock final {
 public:
  ReceivedBlock(ReceivedBlock&&) noexcept = default;
  ReceivedBlock& operator=(ReceivedBlock&& other) noexcept;
  ~ReceivedBlock() { give_back(); }

  std::uint32_t from() const { return from_; }  ///< The sender's rank.
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

/// One device's end of an all-to-all exchange of streams of unknown length: from each rank to each,
/// itself too, in blocks that come in the order in which they were put.
///
/// Blocks are sent as the receiver takes them (credits), so that no device holds more than its
/// budget, however unlike the streams and however slow a receiver; they share the network with the
/// engine's transfers (EgressOrder) and carry their CRC32C. The exchange is over here when all
/// streams to this device have ended and been taken, and all from it have been taken by their
/// receivers.
///
/// Who takes blocks must not wait for room to put others into the same exchange: take while you
/// wait.
///
/// Any thread may call anything. The engine must outlive it and its blocks. Ends with an error at a
/// peer's death (kPeerDied), a limit (kDeadlineExceeded), cancel(), the engine's cancel() of its
/// epoch and step, or kIncompatible and kDataLoss as transfers do: on all devices that still take
/// part.
class Exchange final {
 public:
  /// `changed` is called, on any thread, when put() may have room, next() a block, or ended() an
  /// answer: also when it has none after all, and for a moment after this object's end. Throws
  /// Error(kInvalidArgument) for ranks or a budget that cannot be.
  Exchange(TransferEngine& engine, const TransferId& id, ExchangeOptions options,
           std::function<void()> changed);
  /// Cancels it if it is not over.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::uint32_t rank() const;
  std::uint32_t num_ranks() const;
  std::size_t block_bytes() const;

  /// Sends at most block_bytes() bytes, which are copied, as one block. False if there is no room
  /// for them now, or it is over.
  bool put(std::uint32_t rank, std::span<const std::byte> bytes);
  /// Nothing more is put for this rank.
  void end(std::uint32_t rank);
  /// Nothing more is put.
  void end();
  /// A block that has come; nothing: none is here now.
  std::optional<ReceivedBlock> next();
  /// How it ended; nothing: it goes on.
  std::optional<Outcome<void>> ended() const;
  void cancel(const Error& error);

  /// Payload of blocks that have left for other devices, and come from them.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;

 private:
  const std::shared_ptr<ExchangeState> state_;  // also the blocks' and the work's
};

}  // namespace weft::transfer
