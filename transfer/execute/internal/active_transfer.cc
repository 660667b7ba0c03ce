#include "transfer/execute/internal/active_transfer.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/crc32c.h"

namespace weft::transfer {

ActiveTransfer::ActiveTransfer(const TransferContext& context, const DevicePart& part,
                               const TransferId& id, std::uint64_t order, Buffers buffers,
                               const TransferLimits& limits)
    : ActiveWork(context, id, order, limits),
      part_(part),
      sources_(std::move(buffers.sources)),
      destinations_(std::move(buffers.destinations)),
      destinations_const_(destinations_.begin(), destinations_.end()) {
  streams_.resize(part.streams.size());
  reductions_.resize(part.reductions.size());
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    ReductionState& state = reductions_[i];
    const Reduction& reduction = part.reductions[i];
    const TensorPart& tensor = part.tensors.at(0);
    WEFT_CHECK(part.tensors.size() == 1 && tensor.source && tensor.destination,
               "a reduction needs both boxes of one tensor");
    state.reduction = &reduction;
    state.source = StridedView(reduction.region, *tensor.source, size_of(tensor.dtype));
    state.destination = StridedView(reduction.region, *tensor.destination, size_of(tensor.dtype));
    state.arrived.resize(reduction.num_chunks());
    state.reduced.resize(reduction.num_chunks());
    state.term_streams.resize(reduction.num_ranks);
    remaining_ += reduction.num_chunks();
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    StreamState& state = streams_[i];
    const FlowRole& stream = part.streams[i];
    state.stream = &stream;
    const bool root = !stream.parent;
    open_stream(state);
    state.chunks.resize(stream.num_chunks());
    for (const DeviceId child : stream.children) {
      state.children.push_back(
          {child, context.orders_network && context.peers.is_over_network(child)});
    }
    remaining_ += std::uint64_t{stream.num_chunks()} * (stream.children.size() + (root ? 0 : 1));
    if (!root && stream.kind == FlowKind::kContribution)
      reductions_.at(stream.reduction).term_streams.at(stream.rank) = i;
    if (root && stream.kind == FlowKind::kResult)
      reductions_.at(stream.reduction).result_streams.push_back(static_cast<std::uint32_t>(i));
  }
}

void ActiveTransfer::open_stream(StreamState& state) {
  const FlowRole& stream = *state.stream;
  const bool root = !stream.parent;
  state.all_ready = root && stream.kind != FlowKind::kResult;
  if (stream.kind == FlowKind::kSum) open_sum(state);
  if (stream.adds_own_term() || (!root && stream.kind == FlowKind::kContribution)) return;
  state.view = SegmentedView(
      stream.segments, part_.tensors,
      state.all_ready ? SegmentedView::Side::kSource : SegmentedView::Side::kDestination);
  if (state.view.bytes() != stream.bytes) {
    throw_error(ErrorCode::kInvalidArgument,
                "flow {} of transfer {} has {} bytes, but its segments {}", stream.flow,
                to_string(id()), stream.bytes, state.view.bytes());
  }
}

void ActiveTransfer::begin() {
  ++remaining_;  // keeps the transfer from ending before all of it has begun
  for (const TensorCopy& copy : part_.copies) {
    const TensorPart& tensor = part_.tensors.at(copy.tensor);
    // same bytes, nothing to copy
    if (in_place(copy.tensor) && tensor.source == tensor.destination) continue;
    copy_region(copy.region, size_of(tensor.dtype), tensor.source.value(), sources_[copy.tensor],
                tensor.destination.value(), destinations_[copy.tensor]);
  }
  // An in-place reduction overwrites this device's own term. Keep a copy for the children that have
  // not received it yet.
  for (StreamState& state : streams_) {
    const FlowRole& stream = *state.stream;
    if (stream.kind != FlowKind::kContribution || stream.parent || !in_place(0)) continue;
    const auto overwritten = [&](const Reduction& reduction) {
      return reduction.region.intersect(stream.segments.front().region).has_value();
    };
    if (std::none_of(part_.reductions.begin(), part_.reductions.end(), overwritten)) continue;
    for (std::uint32_t chunk = 0; chunk < state.chunks.size(); ++chunk) pack(state, chunk);
  }
  for (std::uint32_t i = 0; i < reductions_.size(); ++i) {
    if (reductions_[i].reduction->num_ranks != 1) continue;
    for (std::uint32_t chunk = 0; chunk < reductions_[i].reduction->num_chunks(); ++chunk)
      reduce(i, chunk);
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) pump(i);
  complete_one();
}

bool ActiveTransfer::in_place(std::uint32_t tensor) const {
  return !sources_[tensor].empty() && sources_[tensor].data() == destinations_[tensor].data();
}

std::size_t ActiveTransfer::chunk_size(const FlowRole& stream, std::uint32_t chunk) const {
  return std::min(stream.chunk_bytes, stream.bytes - chunk * stream.chunk_bytes);
}

std::optional<std::uint32_t> ActiveTransfer::find_stream(std::uint32_t flow) const {
  const auto found = std::lower_bound(
      part_.streams.begin(), part_.streams.end(), flow,
      [](const FlowRole& stream, std::uint32_t id) { return stream.flow.value() < id; });
  if (found == part_.streams.end() || found->flow.value() != flow) return std::nullopt;
  return static_cast<std::uint32_t>(found - part_.streams.begin());
}

std::optional<std::uint32_t> ActiveTransfer::find_sending(std::uint32_t flow) const {
  // A sum's result has the next flow id and is part of the same stream here.
  for (const std::uint32_t of : {flow, flow - 1}) {
    const auto index = find_stream(of);
    if (index && streams_[*index].stream->outgoing_id().value() == flow) return index;
  }
  return std::nullopt;
}

void ActiveTransfer::chunk_refused(DeviceId device, std::uint32_t flow, std::uint32_t chunk) {
  const auto index = error() ? std::nullopt : find_sending(flow);
  if (!index) return;
  for (Child& child : streams_[*index].children) {
    if (child.device != device) continue;
    for (SentChunk& sent : child.in_flight) sent.held |= sent.chunk == chunk;
  }
  pump(*index);
}

std::span<const std::byte> ActiveTransfer::chunk_bytes(StreamState& state, std::uint32_t chunk) {
  const FlowRole& stream = *state.stream;
  ChunkState& at_chunk = state.chunks[chunk];
  if (at_chunk.slot) return at_chunk.slot.bytes();
  const std::size_t offset = chunk * stream.chunk_bytes, bytes = chunk_size(stream, chunk);
  if (const auto at = state.view.contiguous(offset, bytes))
    return sent_from(state)[at->tensor].subspan(at->offset, bytes);
  pack(state, chunk);
  return at_chunk.slot.bytes();
}

void ActiveTransfer::pack(StreamState& state, std::uint32_t chunk) {
  ChunkState& at_chunk = state.chunks[chunk];
  at_chunk.slot = context_.slots.take(chunk_size(*state.stream, chunk));
  at_chunk.users = state.children.size();
  ++state.slots_in_use;
  state.view.gather(sent_from(state), chunk * state.stream->chunk_bytes, at_chunk.slot.bytes());
}

void ActiveTransfer::pump(std::uint32_t index) {
  if (error()) return;
  bool network = false;
  for (std::uint32_t i = 0; i < streams_[index].children.size(); ++i) {
    if (streams_[index].children[i].network) network = true;
    else
      while (send_next(index, i)) {
      }
  }
  if (network) context_.port.schedule(*this, index);
}

bool ActiveTransfer::can_send(const StreamState& state, const Child& child) const {
  const FlowRole& stream = *state.stream;
  const std::size_t available = state.all_ready ? state.chunks.size() : state.ready.size();
  if (child.next >= available || child.in_flight.size() >= stream.window) return false;
  const std::uint32_t chunk = next_chunk(state, child);
  return state.chunks[chunk].slot || state.slots_in_use < 2 * stream.window ||
         state.view.contiguous(chunk * stream.chunk_bytes, chunk_size(stream, chunk)).has_value();
}

bool ActiveTransfer::send_next(std::uint32_t index, std::uint32_t i) {
  StreamState& state = streams_[index];
  Child& child = state.children[i];
  if (!can_send(state, child)) return false;
  const std::uint32_t chunk = next_chunk(state, child);
  const bool first = child.next++ == 0;
  child.in_flight.push_back({chunk, false});
  message_begun();
  const auto bytes = chunk_bytes(state, chunk);
  ChunkState& at_chunk = state.chunks[chunk];
  if (context_.verifies && at_chunk.crc == 0) at_chunk.crc = crc32c(bytes);
  context_.port.send(
      *this,
      {{index, i, chunk}, child.device, state.stream->outgoing_id(), at_chunk.crc, bytes, first});
  return true;
}

ActiveTransfer::NetworkUse ActiveTransfer::network_use(std::uint32_t stream) const {
  const StreamState& state = streams_[stream];
  NetworkUse use{.places = part_.egress_slots};
  for (const Child& child : state.children) {
    if (!child.network) continue;
    use.wants = use.wants || can_send(state, child);
    use.moves = use.moves ||
                std::ranges::any_of(child.in_flight, [](SentChunk sent) { return !sent.held; });
  }
  return use;
}

void ActiveTransfer::send_over_network(std::uint32_t stream) {
  for (std::uint32_t i = 0; i < streams_[stream].children.size(); ++i) {
    if (!streams_[stream].children[i].network) continue;
    while (send_next(stream, i)) {
    }
  }
}

void ActiveTransfer::chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  StreamState& state = streams_[what.stream];
  Child& child = state.children[what.child];
  std::erase_if(child.in_flight, [&](const SentChunk& sent) { return sent.chunk == what.chunk; });
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (error()) return finish_if_complete();
  ++child.done;
  bytes_sent_ += chunk_size(*state.stream, what.chunk);
  ++remaining_;
  complete_one();
  release_slot(what.stream, what.chunk);
  pump(what.stream);
  complete_one();
}

bool ActiveTransfer::needs(DeviceId peer) const {
  for (const StreamState& state : streams_) {
    if (state.stream->parent == peer && state.landed < state.chunks.size()) return true;
    for (const Child& child : state.children) {
      if (child.device == peer && child.done < state.chunks.size()) return true;
    }
  }
  return false;
}

std::set<DeviceId> ActiveTransfer::stop(bool keep_messages) {
  std::set<DeviceId> waiting;
  for (StreamState& state : streams_) {
    if (state.stream->parent && state.landed < state.chunks.size())
      waiting.insert(*state.stream->parent);
    for (const Child& child : state.children) {
      if (child.done < state.chunks.size()) waiting.insert(child.device);
    }
    if (keep_messages) continue;
    for (const Held& held : state.held) context_.port.release(held.message);
    state.held.clear();
  }
  return waiting;
}

std::set<DeviceId> ActiveTransfer::abandon_messages() {
  std::set<DeviceId> busy;
  for (StreamState& state : streams_) {
    if (state.receiving > 0 || !state.held.empty()) busy.insert(*state.stream->parent);
    state.held.clear();
    for (const Child& child : state.children) {
      if (!child.in_flight.empty()) busy.insert(child.device);
    }
  }
  return busy;
}

std::string ActiveTransfer::describe_missing() const {
  std::string text;
  int items = 0;
  const auto add = [&](const std::string& item) {
    if (++items <= 3) text += (items > 1 ? "; " : "") + item;
  };
  for (const StreamState& state : streams_) {
    const auto total = state.chunks.size();
    if (state.stream->parent && state.landed < total) {
      add(fmt::format("received {} of {} chunks of flow {} from {}", state.landed, total,
                      state.stream->flow, context_.peers.name_of(*state.stream->parent)));
    }
    for (const Child& child : state.children) {
      if (child.done < total) {
        add(fmt::format("sent {} of {} chunks of flow {} to {} ({} in flight)", child.done, total,
                        state.stream->outgoing_id(), context_.peers.name_of(child.device),
                        child.in_flight.size()));
      }
    }
  }
  if (items > 3) text += fmt::format("; and {} more", items - 3);
  return text + ". Those devices may be stuck, or may not have started this transfer";
}

void ActiveTransfer::complete_one() {
  --remaining_;
  finish_if_complete();
}

TransferReport ActiveTransfer::report() const {
  TransferReport report = ActiveWork::report();
  if (error()) report.landed = landed();
  return report;
}

}  // namespace weft::transfer
