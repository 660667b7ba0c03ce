// Receiving half of ActiveTransfer: chunks arrive, land, are unpacked and reduced.
#include <cstring>

#include "core/base/crc32c.h"
#include "transfer/execute/internal/active_transfer.h"
#include "transfer/execute/internal/reduce_terms.h"

namespace weft::transfer {

ActiveWork::Arrival ActiveTransfer::message_arrived(MessageId message, DeviceId sender,
                                                    const ChunkHeader& header, std::size_t bytes,
                                                    std::span<const std::byte> payload) {
  const std::uint32_t flow = header.flow, chunk = header.chunk;
  if (error()) {
    context_.port.drop_message(message, sender, "it belongs to a transfer that has failed here");
    return Arrival::kDone;
  }
  mark_first_bytes();
  const auto index = header.magic == ChunkHeader::kChunk ? find_stream(flow) : std::nullopt;
  if (!index || streams_[*index].stream->parent != sender ||
      chunk >= streams_[*index].chunks.size() ||
      bytes != chunk_size(*streams_[*index].stream, chunk) || streams_[*index].chunks[chunk].seen) {
    context_.port.drop_message(message, sender,
                               "it is a chunk that this device's plan does not expect");
    fail(Error(ErrorCode::kIncompatible,
               fmt::format("{} sent {} bytes as chunk {} of flow {} of transfer {}, which this "
                           "device's plan does not expect; compare "
                           "the plans' digests",
                           context_.peers.name_of(sender), bytes, chunk, flow, to_string(id()))),
         NotifyPeers::kWaiting);
    return Arrival::kDone;
  }
  StreamState& state = streams_[*index];
  state.chunks[chunk].seen = true;
  state.chunks[chunk].crc = header.crc;
  if (can_receive(state, chunk)) {
    take(*index, chunk, message, payload);
    return Arrival::kDone;
  }
  state.held.push_back({message, chunk});
  return Arrival::kHeld;
}

bool ActiveTransfer::can_receive(const StreamState& state, std::uint32_t chunk) const {
  const FlowRole& stream = *state.stream;
  if (stream.kind == FlowKind::kContribution)
    return chunk < reductions_[stream.reduction].prefix + stream.window;
  if (stream.children.empty() || state.slots_in_use < 2 * stream.window) return true;
  if (stream.adds_own_term()) return false;
  return state.view.contiguous(chunk * stream.chunk_bytes, chunk_size(stream, chunk)).has_value();
}

void ActiveTransfer::take(std::uint32_t index, std::uint32_t chunk, MessageId message,
                          std::span<const std::byte> payload) {
  StreamState& state = streams_[index];
  const FlowRole& stream = *state.stream;
  const std::size_t offset = chunk * stream.chunk_bytes, bytes = chunk_size(stream, chunk);
  const bool staged = stream.kind == FlowKind::kContribution || stream.adds_own_term();
  std::span<std::byte> target;
  if (const auto at = staged ? std::nullopt : state.view.contiguous(offset, bytes)) {
    target = destinations_[at->tensor].subspan(at->offset, bytes);
  } else if (!staged && !payload.empty() && state.children.empty()) {
    if (!verify(state, chunk, payload)) return context_.port.release(message);
    state.view.scatter(payload, offset, destinations_);
    context_.port.take(message, *stream.parent, bytes);
    return landed(index, chunk);
  } else {
    ChunkState& at_chunk = state.chunks[chunk];
    at_chunk.slot = context_.slots.take(bytes);
    // plus one user: until the chunk has been put in place or reduced
    at_chunk.users = 1 + static_cast<std::uint32_t>(state.children.size());
    ++state.slots_in_use;
    target = at_chunk.slot.bytes();
  }
  if (!payload.empty()) {
    std::memcpy(target.data(), payload.data(), bytes);
    context_.port.take(message, *stream.parent, bytes);
    return landed(index, chunk);
  }
  message_begun();
  ++state.receiving;
  context_.port.receive(*this, *stream.parent, {index, 0, chunk}, message, target);
}

void ActiveTransfer::chunk_received(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  StreamState& state = streams_[what.stream];
  --state.receiving;
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (error()) {
    const bool deliver = outcome.ok() && state.stream->kind != FlowKind::kContribution &&
                         !state.stream->adds_own_term();
    if (deliver && verify(state, what.chunk, landed_bytes(state, what.chunk)))
      unpack(state, what.chunk);
    return finish_if_complete();
  }
  landed(what.stream, what.chunk);
}

void ActiveTransfer::landed(std::uint32_t index, std::uint32_t chunk) {
  StreamState& state = streams_[index];
  const FlowRole& stream = *state.stream;
  if (context_.verifies && !state.chunks[chunk].verified &&
      !verify(state, chunk, landed_bytes(state, chunk)))
    return;
  if (stream.adds_own_term()) add_term(state, chunk);
  ++state.landed;
  record_progress();
  bytes_received_ += chunk_size(stream, chunk);
  ++remaining_;  // the transfer may end only at the end of this function
  complete_one();
  state.ready.push_back(chunk);
  pump(index);
  if (stream.kind == FlowKind::kContribution) {
    ReductionState& reduction = reductions_[stream.reduction];
    if (++reduction.arrived[chunk] == reduction.reduction->num_ranks - 1)
      reduce(stream.reduction, chunk);
  } else {
    if (!stream.adds_own_term() || stream.stores_sum) unpack(state, chunk);
    release_slot(index, chunk);
  }
  complete_one();
}

std::span<const std::byte> ActiveTransfer::landed_bytes(StreamState& state, std::uint32_t chunk) {
  if (state.chunks[chunk].slot) return state.chunks[chunk].slot.bytes();
  const std::size_t bytes = chunk_size(*state.stream, chunk);
  const auto at = state.view.contiguous(chunk * state.stream->chunk_bytes, bytes).value();
  return destinations_const_[at.tensor].subspan(at.offset, bytes);
}

bool ActiveTransfer::verify(StreamState& state, std::uint32_t chunk,
                            std::span<const std::byte> bytes) {
  ChunkState& at_chunk = state.chunks[chunk];
  if (!context_.verifies) return true;
  at_chunk.verified = true;
  if (at_chunk.crc == 0) return true;
  const std::uint32_t sum = crc32c(bytes);
  if (sum == at_chunk.crc) return true;
  fail(
      Error(ErrorCode::kDataLoss,
            fmt::format("chunk {} of flow {} of transfer {} from {} arrived damaged: its CRC32C is "
                        "{:08x}, expected {:08x}. Check memory and network hardware of both hosts",
                        chunk, state.stream->flow, to_string(id()),
                        context_.peers.name_of(*state.stream->parent), sum, at_chunk.crc)),
      NotifyPeers::kWaiting);
  return false;
}

void ActiveTransfer::unpack(StreamState& state, std::uint32_t chunk) {
  ChunkState& at_chunk = state.chunks[chunk];
  if (at_chunk.slot)
    state.view.scatter(at_chunk.slot.bytes(), chunk * state.stream->chunk_bytes, destinations_);
  at_chunk.is_unpacked = true;
}

std::vector<LandedChunks> ActiveTransfer::landed() const {
  std::vector<LandedChunks> result;
  for (const StreamState& state : streams_) {
    if (!state.stream->parent || state.stream->kind == FlowKind::kContribution ||
        state.stream->adds_own_term())
      continue;
    LandedChunks& chunks =
        result.emplace_back(LandedChunks::none(state.stream->flow, state.stream->num_chunks()));
    for (std::uint32_t chunk = 0; chunk < state.chunks.size(); ++chunk) {
      if (state.chunks[chunk].is_unpacked) chunks.set(chunk);
    }
  }
  return result;
}

void ActiveTransfer::reduce(std::uint32_t index, std::uint32_t chunk) {
  ReductionState& state = reductions_[index];
  const Reduction& reduction = *state.reduction;
  const std::size_t offset = chunk * reduction.chunk_bytes;
  const std::size_t bytes = std::min(reduction.chunk_bytes, reduction.bytes - offset);
  SlotPool::Slot own_slot, out_slot;
  std::vector<const std::byte*> terms(reduction.num_ranks);
  for (std::uint32_t rank = 0; rank < reduction.num_ranks; ++rank) {
    if (rank != reduction.own_rank) {
      terms[rank] = streams_[state.term_streams[rank]].chunks[chunk].slot.bytes().data();
    } else if (const auto at = state.source.contiguous(offset, bytes)) {
      terms[rank] = sources_[0].data() + *at;
    } else {
      own_slot = context_.slots.take(bytes);
      state.source.gather(sources_[0].data(), offset, own_slot.bytes());
      terms[rank] = own_slot.bytes().data();
    }
  }
  const DType dtype = part_.tensors[0].dtype;
  if (const auto at = state.destination.contiguous(offset, bytes)) {
    reduce_terms(dtype, reduction.op, terms, destinations_[0].subspan(*at, bytes));
  } else {
    out_slot = context_.slots.take(bytes);
    reduce_terms(dtype, reduction.op, terms, out_slot.bytes());
    state.destination.scatter(out_slot.bytes(), offset, destinations_[0].data());
  }
  state.reduced[chunk] = true;
  while (state.prefix < state.reduced.size() && state.reduced[state.prefix]) ++state.prefix;
  for (std::uint32_t rank = 0; rank < reduction.num_ranks; ++rank) {
    if (rank != reduction.own_rank) release_slot(state.term_streams[rank], chunk);
  }
  for (const std::uint32_t stream : state.result_streams) {
    streams_[stream].ready.push_back(chunk);
    pump(stream);
  }
  ++remaining_;
  complete_one();
  for (std::uint32_t rank = 0; rank < reduction.num_ranks; ++rank) {
    if (rank != reduction.own_rank) receive_held(state.term_streams[rank]);
  }
  complete_one();
}

void ActiveTransfer::release_slot(std::uint32_t index, std::uint32_t chunk) {
  StreamState& state = streams_[index];
  ChunkState& at_chunk = state.chunks[chunk];
  if (!at_chunk.slot || --at_chunk.users != 0) return;
  at_chunk.slot = SlotPool::Slot();
  --state.slots_in_use;
  receive_held(index);
}

void ActiveTransfer::receive_held(std::uint32_t index) {
  StreamState& state = streams_[index];
  for (std::size_t i = 0; !error() && i < state.held.size();) {
    const Held held = state.held[i];
    if (!can_receive(state, held.chunk)) {
      ++i;
      continue;
    }
    state.held.erase(state.held.begin() + i);
    take(index, held.chunk, held.message, {});
    i = 0;
  }
}

}  // namespace weft::transfer
