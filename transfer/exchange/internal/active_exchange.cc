#include "transfer/exchange/internal/active_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"

namespace weft::transfer {

ActiveExchange::ActiveExchange(const TransferContext& context, const TransferId& id,
                               std::uint64_t order, std::shared_ptr<ExchangeState> state)
    : ActiveWork(context, id, order, state->options.limits),
      state_(std::move(state)),
      num_ranks_(static_cast<std::uint32_t>(state_->options.ranks.size())) {
  for (std::uint32_t i = 1; i < num_ranks_; ++i) {
    const std::uint32_t rank = (state_->rank + i) % num_ranks_;
    PeerStream& stream = streams_.emplace_back();
    stream.device = state_->options.ranks[rank];
    stream.rank = rank;
    stream.index = i - 1;
    stream.network = context.orders_network && context.peers.is_over_network(stream.device);
  }
}

ActiveExchange::PeerStream* ActiveExchange::find(DeviceId device) {
  const auto found = std::ranges::find(streams_, device, &PeerStream::device);
  return found == streams_.end() ? nullptr : &*found;
}

void ActiveExchange::note(const PeerStream& stream, std::uint32_t magic, std::uint32_t flow,
                          std::uint32_t chunk) {
  context_.port.send_note(stream.device, ChunkHeader::of(magic, id(), flow, chunk));
}

void ActiveExchange::begin() {
  for (PeerStream& stream : streams_) grant(stream);
  finish_if_complete();
}

void ActiveExchange::grant(PeerStream& stream) {
  stream.in.limit = stream.in.taken + state_->sizes.credits;
  note(stream, ChunkHeader::kCredit, static_cast<std::uint32_t>(state_->sizes.block_bytes),
       stream.in.limit);
}

void ActiveExchange::put(std::uint32_t rank, ExchangeBlock block) {
  if (error()) return give_back(state_->out, std::move(block));
  PeerStream& stream = stream_of(rank);
  stream.out.queue.push_back(std::move(block));
  pump(stream);
}

void ActiveExchange::end_stream(std::uint32_t rank) {
  if (error()) return;
  if (rank != state_->rank) {
    PeerStream& stream = stream_of(rank);
    stream.out.ended = true;
    note(stream, ChunkHeader::kEnd, 0,
         static_cast<std::uint32_t>(stream.out.sent + stream.out.queue.size()));
  }
  finish_if_complete();
}

void ActiveExchange::taken(std::uint32_t rank) {
  if (error()) return;
  if (rank != state_->rank) {
    PeerStream& stream = stream_of(rank);
    ++stream.in.taken;
    record_progress();
    if (stream.in.end && *stream.in.end <= stream.in.limit) finish_incoming(stream);
    else grant(stream);
  }
  finish_if_complete();
}

bool ActiveExchange::can_send(const PeerStream& stream) {
  return !stream.out.queue.empty() && stream.out.sent < stream.out.limit;
}

void ActiveExchange::send_next(PeerStream& stream) {
  const std::uint32_t number = stream.out.sent++;
  ExchangeBlock& block = stream.out.in_flight[number] = std::move(stream.out.queue.front());
  stream.out.queue.pop_front();
  message_begun();
  context_.port.send(*this, {.what = {stream.index, 0, number},
                             .child = stream.device,
                             .flow = FlowId(0),
                             .crc = block.crc,
                             .payload = {block.memory.get(), block.size},
                             .magic = ChunkHeader::kBlock});
}

void ActiveExchange::pump(PeerStream& stream) {
  if (error()) return;
  if (stream.network) return context_.port.schedule(*this, stream.index);
  while (can_send(stream)) send_next(stream);
}

ActiveWork::NetworkUse ActiveExchange::network_use(std::uint32_t index) const {
  const PeerStream& stream = streams_[index];
  return {.wants = can_send(stream), .moves = stream.out.in_flight.size() > stream.out.held.size()};
}

void ActiveExchange::send_over_network(std::uint32_t index) {
  while (can_send(streams_[index])) send_next(streams_[index]);
}

void ActiveExchange::chunk_refused(DeviceId device, std::uint32_t, std::uint32_t chunk) {
  PeerStream* const stream = error() ? nullptr : find(device);
  if (stream == nullptr || !stream->out.in_flight.contains(chunk)) return;
  stream->out.held.insert(chunk);
  pump(*stream);
}

void ActiveExchange::chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  PeerStream& stream = streams_[what.stream];
  auto sent = stream.out.in_flight.extract(what.chunk);
  stream.out.held.erase(what.chunk);
  const std::uint32_t bytes = sent.mapped().size;
  give_back(state_->out, std::move(sent.mapped()));
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (error()) return finish_if_complete();
  bytes_sent_ += bytes;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->bytes_sent = bytes_sent_;
  }
  state_->changed();
  pump(stream);
  finish_if_complete();
}

ActiveWork::Arrival ActiveExchange::message_arrived(MessageId message, DeviceId sender,
                                                    const ChunkHeader& header, std::size_t bytes,
                                                    std::span<const std::byte> payload) {
  PeerStream* const stream = find(sender);
  if (header.magic == ChunkHeader::kBlock && stream != nullptr && !error()) {
    block_arrived(*stream, message, header, bytes, payload);
    return Arrival::kDone;
  }
  if (header.carries_payload() || stream == nullptr) {
    context_.port.drop_message(
        message, sender,
        error() ? "it belongs to an exchange that has failed here"
                : "its id belongs to an exchange here that has no such sender or no "
                  "planned chunks");
    if (stream != nullptr && !error()) fail_inconsistent(*stream, "a chunk of a planned transfer");
    return Arrival::kDone;
  }
  context_.port.release(message);
  if (!error()) note_arrived(*stream, header);
  return Arrival::kDone;
}

void ActiveExchange::block_arrived(PeerStream& stream, MessageId message, const ChunkHeader& header,
                                   std::size_t bytes, std::span<const std::byte> payload) {
  mark_first_bytes();
  Incoming& in = stream.in;
  const std::uint32_t number = header.chunk;
  const bool seen =
      number < in.delivered || in.receiving.contains(number) || in.landed.contains(number);
  if (seen || number >= in.limit || (in.end && number >= *in.end) || bytes == 0 ||
      bytes > state_->sizes.block_bytes) {
    context_.port.drop_message(message, stream.device,
                               "it is a block outside its stream's credit, or a repeated one");
    return fail_inconsistent(stream, fmt::format("{} bytes as block {}", bytes, number));
  }
  in.arrived_end = std::max(in.arrived_end, number + 1);
  ExchangeBlock block{nullptr, static_cast<std::uint32_t>(bytes), header.crc};
  {
    const std::scoped_lock lock(state_->mutex);
    block.memory = state_->in.take();
  }
  WEFT_CHECK(block.memory != nullptr, "a block within its credit has no memory");
  const std::span<std::byte> memory(block.memory.get(), bytes);
  if (!payload.empty()) {
    std::memcpy(memory.data(), payload.data(), bytes);
    context_.port.take(message, stream.device, bytes);
    return landed(stream, number, std::move(block));
  }
  in.receiving.emplace(number, std::move(block));
  message_begun();
  context_.port.receive(*this, stream.device, {stream.index, 0, number}, message, memory);
}

void ActiveExchange::chunk_received(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  PeerStream& stream = streams_[what.stream];
  auto received = stream.in.receiving.extract(what.chunk);
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (!error()) return landed(stream, what.chunk, std::move(received.mapped()));
  give_back(state_->in, std::move(received.mapped()));
  finish_if_complete();
}

void ActiveExchange::landed(PeerStream& stream, std::uint32_t number, ExchangeBlock block) {
  record_progress();
  const std::uint32_t sum = crc32c({block.memory.get(), block.size});
  if (sum != block.crc) {
    const std::uint32_t expected = block.crc;
    give_back(state_->in, std::move(block));
    return fail(
        Error(ErrorCode::kDataLoss,
              fmt::format(
                  "block {} of {} from {} arrived damaged: its CRC32C is {:08x}, expected {:08x}. "
                  "Check memory and network hardware of both hosts",
                  number, describe(), context_.peers.name_of(stream.device), sum, expected)),
        NotifyPeers::kWaiting);
  }
  bytes_received_ += block.size;
  stream.in.landed.emplace(number, std::move(block));
  {
    const std::scoped_lock lock(state_->mutex);
    state_->bytes_received = bytes_received_;
    for (auto next = stream.in.landed.begin();
         next != stream.in.landed.end() && next->first == stream.in.delivered;
         next = stream.in.landed.erase(next)) {
      state_->ready.push_back({stream.rank, std::move(next->second)});
      ++stream.in.delivered;
    }
  }
  state_->changed();
}

void ActiveExchange::note_arrived(PeerStream& stream, const ChunkHeader& header) {
  switch (header.magic) {
    case ChunkHeader::kCredit:
      if (header.flow != state_->sizes.block_bytes) {
        return fail_inconsistent(
            stream, fmt::format("credit for blocks of {} bytes, but this device uses {}",
                                header.flow, state_->sizes.block_bytes));
      }
      stream.out.limit = std::max(stream.out.limit, header.chunk);
      return pump(stream);
    case ChunkHeader::kEnd:
      if (stream.in.end || header.chunk < stream.in.arrived_end)
        return fail_inconsistent(stream, fmt::format("an end at block {}", header.chunk));
      stream.in.end = header.chunk;
      finish_incoming(stream);
      return finish_if_complete();
    case ChunkHeader::kConsumed:
      if (!stream.out.ended || !stream.out.queue.empty() || stream.out.taken)
        return fail_inconsistent(stream, "an acknowledgement of blocks that were not sent");
      stream.out.taken = true;
      record_progress();
      return finish_if_complete();
    default: return fail_inconsistent(stream, "a message of an unknown type");
  }
}

void ActiveExchange::finish_incoming(PeerStream& stream) {
  if (stream.in.taken_sent || stream.in.end != stream.in.taken) return;
  stream.in.taken_sent = true;
  note(stream, ChunkHeader::kConsumed, 0, 0);
}

void ActiveExchange::fail_inconsistent(const PeerStream& stream, std::string_view what) {
  fail(Error(ErrorCode::kIncompatible,
             fmt::format("{} sent {} for {}, which contradicts the state of this device; open the "
                         "exchange with the same ranks and budget on all devices",
                         context_.peers.name_of(stream.device), what, describe())),
       NotifyPeers::kWaiting);
}

void ActiveExchange::give_back(BlockPool& pool, ExchangeBlock block) {
  const std::scoped_lock lock(state_->mutex);
  pool.give_back(std::move(block.memory));
}

bool ActiveExchange::needs(DeviceId peer) const {
  const auto found = std::ranges::find(streams_, peer, &PeerStream::device);
  return found != streams_.end() && !(found->out.taken && found->in.all_landed());
}

std::set<DeviceId> ActiveExchange::stop(bool) {
  std::set<DeviceId> waiting;
  for (PeerStream& stream : streams_) {
    if (!stream.done()) waiting.insert(stream.device);
    for (ExchangeBlock& block : std::exchange(stream.out.queue, {}))
      give_back(state_->out, std::move(block));
    for (auto& [number, block] : std::exchange(stream.in.landed, {}))
      give_back(state_->in, std::move(block));
  }
  {
    const std::scoped_lock lock(state_->mutex);
    if (!state_->outcome) state_->outcome = *error();
  }
  state_->changed();
  return waiting;
}

std::set<DeviceId> ActiveExchange::abandon_messages() {
  std::set<DeviceId> busy;
  for (const PeerStream& stream : streams_) {
    if (!stream.out.in_flight.empty() || !stream.in.receiving.empty()) busy.insert(stream.device);
  }
  return busy;
}

bool ActiveExchange::complete() const {
  return std::ranges::all_of(streams_, &PeerStream::done) && state_->own_stream_done();
}

std::string ActiveExchange::describe_missing() const {
  std::string text;
  int items = 0;
  const auto add = [&](const std::string& item) {
    if (++items <= 3) text += (items > 1 ? "; " : "") + item;
  };
  for (const PeerStream& stream : streams_) {
    const std::string name = context_.peers.name_of(stream.device);
    if (!stream.in.all_landed()) {
      add(fmt::format("received {} blocks from {}, but not the end of its stream",
                      stream.in.delivered, name));
    } else if (!stream.in.taken_sent) {
      add(fmt::format("{} of {} blocks from {} have been taken here", stream.in.taken,
                      *stream.in.end, name));
    }
    if (!stream.out.ended) {
      add(fmt::format("the stream to {} has not been ended here", name));
    } else if (!stream.out.taken) {
      add(fmt::format("{} has not taken all of {} blocks ({} wait for it)", name,
                      stream.out.sent + stream.out.queue.size(),
                      stream.out.queue.size() + stream.out.in_flight.size()));
    }
  }
  if (items > 3) text += fmt::format("; and {} more", items - 3);
  return text + ". Those devices may be stuck, or may not have opened this exchange";
}

}  // namespace weft::transfer
