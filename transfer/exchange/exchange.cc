#include "transfer/exchange/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "transfer/exchange/internal/active_exchange.h"
#include "transfer/exchange/internal/exchange_state.h"

namespace weft::transfer {
namespace {

std::shared_ptr<ExchangeState> make_state(TransferEngine& engine, const TransferId& id,
                                          ExchangeOptions options, std::function<void()> changed) {
  const auto own = std::ranges::find(options.ranks, engine.self());
  const std::set<DeviceId> different(options.ranks.begin(), options.ranks.end());
  if (own == options.ranks.end() || different.size() != options.ranks.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "exchange {} must name each of its devices once, device {} among them",
                to_string(id), engine.self());
  }
  WEFT_CHECK(changed != nullptr);
  const auto rank = static_cast<std::uint32_t>(own - options.ranks.begin());
  const BlockBudget sizes = BlockBudget::of(options.ranks.size(), options.budget);
  auto state =
      std::make_shared<ExchangeState>(engine, std::move(options), rank, sizes, std::move(changed));
  state->stream_ended.resize(state->options.ranks.size());
  return state;
}

}  // namespace

BlockBudget BlockBudget::of(std::size_t num_ranks, std::size_t budget) {
  // at least two blocks to send, so that one can be filled while another is in flight
  const std::size_t others = num_ranks - 1, least = others + 2;
  const std::size_t block = std::min(kMaxBlockBytes, budget / least / 1024 * 1024);
  if (block < kMinBlockBytes) {
    throw_error(ErrorCode::kInvalidArgument,
                "an exchange among {} devices needs a budget of at least {} KiB; it has {}",
                num_ranks, least * kMinBlockBytes / 1024, budget / 1024);
  }
  const std::size_t blocks = budget / block;
  const std::size_t credits =
      others == 0 ? 1 : std::clamp<std::size_t>(blocks / (2 * others), 1, std::size_t{kMaxCredits});
  const std::size_t out = std::min(blocks - credits * others, 2 + kMaxCredits * num_ranks);
  return {block, static_cast<std::uint32_t>(credits), static_cast<std::uint32_t>(out)};
}

ReceivedBlock& ReceivedBlock::operator=(ReceivedBlock&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  state_ = std::move(other.state_);
  from_ = other.from_;
  memory_ = std::move(other.memory_);
  size_ = other.size_;
  return *this;
}

void ReceivedBlock::give_back() {
  if (!memory_) return;
  const bool own = from_ == state_->rank;
  {
    const std::scoped_lock lock(state_->mutex);
    (own ? state_->out : state_->in).give_back(std::move(memory_));
    if (own) ++state_->own_taken;
  }
  if (own) state_->changed();  // there is room for another put()
  state_->engine.post([state = state_, from = from_] {
    if (state->work != nullptr) state->work->taken(from);
  });
}

Exchange::Exchange(TransferEngine& engine, const TransferId& id, ExchangeOptions options,
                   std::function<void()> changed)
    : state_(make_state(engine, id, std::move(options), std::move(changed))) {
  std::vector<DeviceId> peers = state_->options.ranks;
  std::erase(peers, engine.self());
  MakeWork make = [state = state_, id](const TransferContext& context, std::uint64_t order) {
    auto work = std::make_unique<ActiveExchange>(context, id, order, state);
    state->work = work.get();
    return work;
  };
  engine.start(id, std::move(peers), state_->options.limits.low_priority, std::move(make),
               [state = state_](const TransferReport& report) {
                 state->work = nullptr;
                 {
                   const std::scoped_lock lock(state->mutex);
                   if (!state->outcome) state->outcome = report.outcome;
                 }
                 state->changed();
               });
}

Exchange::~Exchange() {
  if (!outcome())
    cancel(Error(ErrorCode::kCancelled, "the exchange was destroyed before it ended"));
}

std::uint32_t Exchange::rank() const { return state_->rank; }
std::uint32_t Exchange::num_ranks() const {
  return static_cast<std::uint32_t>(state_->options.ranks.size());
}
std::size_t Exchange::block_bytes() const { return state_->sizes.block_bytes; }

bool Exchange::put(std::uint32_t rank, std::span<const std::byte> bytes) {
  if (rank >= num_ranks() || bytes.size() > block_bytes()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{} bytes for rank {}: there are {} ranks, and a block has at most {} bytes",
                bytes.size(), rank, num_ranks(), block_bytes());
  }
  if (bytes.empty()) return true;
  ExchangeBlock block{nullptr, static_cast<std::uint32_t>(bytes.size())};
  {
    const std::scoped_lock lock(state_->mutex);
    WEFT_CHECK(!state_->stream_ended[rank], "a block for rank {} after its stream's end", rank);
    if (state_->outcome) return false;
    block.memory = state_->out.take();
    if (!block.memory) return false;
  }
  std::memcpy(block.memory.get(), bytes.data(), bytes.size());
  if (rank == state_->rank) {
    {
      const std::scoped_lock lock(state_->mutex);
      ++state_->own_put;
      state_->ready.push_back({rank, std::move(block)});
    }
    state_->changed();
    return true;
  }
  block.crc = crc32c(bytes);
  // shared, because a posted task must be copyable
  state_->engine.post(
      [state = state_, rank, kept = std::make_shared<ExchangeBlock>(std::move(block))] {
        if (state->work != nullptr) return state->work->put(rank, std::move(*kept));
        const std::scoped_lock lock(state->mutex);
        state->out.give_back(std::move(kept->memory));
      });
  return true;
}

void Exchange::end_stream(std::uint32_t rank) {
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->stream_ended.at(rank)) return;
    state_->stream_ended[rank] = true;
  }
  state_->engine.post([state = state_, rank] {
    if (state->work != nullptr) state->work->end_stream(rank);
  });
}

void Exchange::end_all_streams() {
  for (std::uint32_t rank = 0; rank < num_ranks(); ++rank) end_stream(rank);
}

std::optional<ReceivedBlock> Exchange::take_block() {
  const std::scoped_lock lock(state_->mutex);
  if (state_->ready.empty()) return std::nullopt;
  ExchangeState::Ready ready = std::move(state_->ready.front());
  state_->ready.pop_front();
  return ReceivedBlock(state_, ready.from, std::move(ready.block.memory), ready.block.size);
}

std::optional<Outcome<void>> Exchange::outcome() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->outcome;
}

void Exchange::cancel(const Error& error) {
  state_->engine.post([state = state_, error] {
    if (state->work != nullptr) state->work->fail(error, ActiveWork::NotifyPeers::kWaiting);
  });
}

std::uint64_t Exchange::bytes_sent() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->bytes_sent;
}
std::uint64_t Exchange::bytes_received() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->bytes_received;
}

}  // namespace weft::transfer
