#include "mesh/exchange/exchange.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {

std::vector<std::byte> DataPlaneEndpoint::open(const transfer::DataPlaneSetup& setup) {
  ranks_.clear();
  engine_.reset();  // The old engine must end first.
  transfer::EngineOptions options;
  options.log = context_.log();
  engine_ = std::make_unique<transfer::TransferEngine>(transfer::make_wire(setup), clock_,
                                                       std::move(options));
  epoch_ = setup.epoch;
  rank_ = setup.device.value();
  cancelled_.reset();
  numbers_.clear();
  return engine_->address();
}

void DataPlaneEndpoint::connect(const std::vector<transfer::PeerAddress>& peers) {
  if (!engine_)
    throw_error(ErrorCode::kFailedPrecondition,
                "connect() was called before open(); call open() first");
  ranks_.clear();
  for (const transfer::PeerAddress& peer : peers) {
    ranks_.push_back(peer.device);
    if (peer.device != engine_->self()) engine_->connect(peer.device, peer.host, peer.address);
  }
}

void DataPlaneEndpoint::cancel(const Error& error) {
  cancelled_ = error;
  for (ActorExchange* exchange : exchanges_) exchange->exchange_.cancel(error);
}

transfer::TransferEngine& DataPlaneEndpoint::engine_for(std::uint64_t number) {
  if (cancelled_) throw Error(*cancelled_);
  if (!is_connected())
    throw_error(ErrorCode::kFailedPrecondition,
                "the ranks are not connected; call connect() before an exchange begins");
  // Late blocks of the earlier exchange would be taken for blocks of this one.
  if (!numbers_.insert(number).second)
    throw_error(
        ErrorCode::kFailedPrecondition,
        "exchange number {} was already used in this epoch; give each exchange its own number",
        number);
  return *engine_;
}

ActorExchange::ActorExchange(DataPlaneEndpoint& port, const Options& options, BlockHandler take)
    : port_(port),
      take_(std::move(take)),
      wakeup_(port.context_.make_wakeup()),
      exchange_(port.engine_for(options.number), {port.epoch_, options.number, 0, 0},
                {port.ranks_, options.budget, options.limits},
                [wakeup = wakeup_] { wakeup.notify(); }),
      filled_(exchange_.num_ranks()) {
  port.exchanges_.insert(this);
}

ActorExchange::~ActorExchange() {
  port_.exchanges_.erase(this);
  port_.bytes_sent_ += exchange_.bytes_sent();
}

bool ActorExchange::take_all() {
  if (!take_) return false;
  bool any = false;
  while (const auto block = exchange_.take_block()) {
    take_(*block);
    any = true;
  }
  return any;
}

void ActorExchange::throw_if_failed() const {
  const auto ended = exchange_.outcome();
  if (ended && !ended->ok()) throw Error(ended->error());
}

actors::task<> ActorExchange::send_block(std::uint32_t rank, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), block_bytes()));
    while (!exchange_.put(rank, block)) {
      throw_if_failed();
      if (!take_all()) co_await wakeup_.wait();
    }
    bytes = bytes.subspan(block.size());
  }
  take_all();
}

bool ActorExchange::append(std::uint32_t rank, std::span<const std::byte> record) {
  std::vector<std::byte>& block = filled_[rank];
  WEFT_CHECK(record.size() <= block_bytes(), "a record of {} bytes", record.size());
  if (block.size() + record.size() > block_bytes()) return false;
  if (block.capacity() == 0) block.reserve(block_bytes());
  block.insert(block.end(), record.begin(), record.end());
  return true;
}

actors::task<> ActorExchange::flush(std::uint32_t rank) {
  co_await send_block(rank, filled_[rank]);
  filled_[rank].clear();
}

actors::task<> ActorExchange::end() {
  for (std::uint32_t rank = 0; rank < num_ranks(); ++rank) {
    co_await flush(rank);
    exchange_.end_stream(rank);
  }
}

actors::task<std::optional<transfer::ReceivedBlock>> ActorExchange::next() {
  WEFT_CHECK(!take_, "blocks are passed to `take`, not returned by next()");
  while (true) {
    if (auto block = exchange_.take_block()) co_return block;
    throw_if_failed();
    if (exchange_.outcome()) co_return std::nullopt;
    co_await wakeup_.wait();
  }
}

actors::task<> ActorExchange::finish() {
  co_await end();
  while (true) {
    throw_if_failed();
    if (take_all()) continue;
    if (exchange_.outcome()) co_return;
    co_await wakeup_.wait();
  }
}

}  // namespace weft::mesh
