#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/outcome.h"
#include "transfer/exchange/exchange.h"

namespace weft::transfer {

class ActiveExchange;

using BlockMemory = std::unique_ptr<std::byte[]>;

/// Block that waits to be sent or to be taken.
struct ExchangeBlock {
  BlockMemory memory;
  std::uint32_t size = 0;
  std::uint32_t crc = 0;
};

/// Pool of blocks of one size, allocated as needed.
class BlockPool final {
 public:
  BlockPool(std::size_t block_bytes, std::size_t most) : bytes_(block_bytes), most_(most) {}
  /// Returns a block, or null if all `most` blocks are in use.
  BlockMemory take() {
    if (free_.empty()) {
      if (allocated_ == most_) return nullptr;
      ++allocated_;
      return std::make_unique_for_overwrite<std::byte[]>(bytes_);
    }
    BlockMemory memory = std::move(free_.back());
    free_.pop_back();
    return memory;
  }
  void give_back(BlockMemory memory) { free_.push_back(std::move(memory)); }

 private:
  const std::size_t bytes_, most_;
  std::size_t allocated_ = 0;
  std::vector<BlockMemory> free_;
};

/// State that an exchange's users and the transfer thread share.
struct ExchangeState {
  ExchangeState(TransferEngine& of, ExchangeOptions given, std::uint32_t own_rank,
                BlockBudget chosen, std::function<void()> on_progress)
      : engine(of),
        options(std::move(given)),
        rank(own_rank),
        sizes(chosen),
        changed(std::move(on_progress)),
        out(sizes.block_bytes, sizes.send_blocks),
        in(sizes.block_bytes, std::size_t{sizes.credits} * (options.ranks.size() - 1)) {}

  struct Ready {
    std::uint32_t from;
    ExchangeBlock block;
  };

  TransferEngine& engine;
  const ExchangeOptions options;
  const std::uint32_t rank;
  const BlockBudget sizes;
  const std::function<void()> changed;

  ActiveExchange* work = nullptr;  // transfer thread only; null unless running

  std::mutex mutex;
  // All members below are guarded by `mutex`.
  BlockPool out, in;
  std::deque<Ready> ready;
  std::optional<Outcome<void>> outcome;
  std::vector<bool> stream_ended;            // per rank, true after end_stream()
  std::uint64_t own_put = 0, own_taken = 0;  // blocks from this device to itself
  std::uint64_t bytes_sent = 0, bytes_received = 0;

  /// Returns true if the stream from this device to itself has ended and been taken.
  bool own_stream_done() {
    const std::scoped_lock lock(mutex);
    return stream_ended[rank] && own_put == own_taken;
  }
};

}  // namespace weft::transfer
