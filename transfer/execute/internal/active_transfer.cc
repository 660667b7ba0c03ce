#include "transfer/execute/internal/active_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::transfer {

ActiveTransfer::ActiveTransfer(const TransferContext& context, const DevicePart& part,
                               const TransferId& id, std::uint64_t order, TransferBuffers buffers,
                               const TransferLimits& limits)
    : ActiveWork(context, id, order, limits), part_(part), buffers_(std::move(buffers)) {
  reductions_.reserve(part.reductions.size());
  for (const Reduction& reduction : part.reductions) {
    reductions_.emplace_back(context.slots, part, buffers_, reduction);
    remaining_ += reduction.num_chunks();
  }
  streams_.reserve(part.streams.size());
  for (const FlowRole& role : part.streams) {
    const auto index = static_cast<std::uint32_t>(streams_.size());
    streams_.emplace_back(context_, part, buffers_, role, id);
    const bool root = !role.parent;
    remaining_ += std::uint64_t{role.num_chunks()} * (role.children.size() + (root ? 0 : 1));
    if (!root && role.kind == FlowKind::kContribution)
      reductions_.at(role.reduction).set_term_stream(role.rank, index);
    if (root && role.kind == FlowKind::kResult)
      reductions_.at(role.reduction).add_result_stream(index);
  }
}

void ActiveTransfer::begin() {
  ++remaining_;  // keeps the transfer from ending before all of it has begun
  copy_locally();
  pack_overwritten_terms();
  for (std::uint32_t i = 0; i < reductions_.size(); ++i) {
    if (reductions_[i].num_ranks() != 1) continue;
    for (std::uint32_t chunk = 0; chunk < reductions_[i].num_chunks(); ++chunk) reduce(i, chunk);
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) pump(i);
  complete_one();
}

void ActiveTransfer::copy_locally() {
  for (const TensorCopy& copy : part_.copies) {
    const TensorPart& tensor = part_.tensors.at(copy.tensor);
    // same bytes, nothing to copy
    if (buffers_.in_place(copy.tensor) && tensor.source == tensor.destination) continue;
    copy_region(copy.region, size_of(tensor.dtype), tensor.source.value(),
                buffers_.sources[copy.tensor], tensor.destination.value(),
                buffers_.destinations[copy.tensor]);
  }
}

void ActiveTransfer::pack_overwritten_terms() {
  for (TransferStream& stream : streams_) {
    const FlowRole& role = stream.role();
    if (role.kind != FlowKind::kContribution || role.parent || !buffers_.in_place(0)) continue;
    const auto overwrites = [&](const Reduction& reduction) {
      return reduction.region.intersect(role.segments.front().region).has_value();
    };
    if (std::ranges::none_of(part_.reductions, overwrites)) continue;
    for (std::uint32_t chunk = 0; chunk < stream.num_chunks(); ++chunk) stream.pack(chunk);
  }
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
    if (index && streams_[*index].role().outgoing_id().value() == flow) return index;
  }
  return std::nullopt;
}

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
  if (!index || !streams_[*index].expects(sender, chunk, bytes)) {
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
  TransferStream& stream = streams_[*index];
  stream.mark_seen(chunk, header.crc);
  if (can_receive(stream, chunk)) {
    take(*index, chunk, message, payload);
    return Arrival::kDone;
  }
  stream.hold({message, chunk});
  return Arrival::kHeld;
}

bool ActiveTransfer::can_receive(const TransferStream& stream, std::uint32_t chunk) const {
  const FlowRole& role = stream.role();
  if (role.kind == FlowKind::kContribution)
    return reductions_[role.reduction].admits(chunk, role.window);
  return stream.has_room_for(chunk);
}

void ActiveTransfer::take(std::uint32_t index, std::uint32_t chunk, MessageId message,
                          std::span<const std::byte> payload) {
  TransferStream& stream = streams_[index];
  const DeviceId sender = *stream.role().parent;
  const std::size_t bytes = stream.chunk_size(chunk);
  std::optional<std::span<std::byte>> target = stream.place_of(chunk);
  if (!target && !payload.empty() && stream.can_unpack_directly()) {
    if (!verify(stream, chunk, payload)) return context_.port.release(message);
    stream.scatter(chunk, payload);
    context_.port.take(message, sender, bytes);
    return landed(index, chunk);
  }
  if (!target) target = stream.stage(chunk);
  if (!payload.empty()) {
    std::memcpy(target->data(), payload.data(), bytes);
    context_.port.take(message, sender, bytes);
    return landed(index, chunk);
  }
  message_begun();
  stream.begin_receive();
  context_.port.receive(*this, sender, {index, 0, chunk}, message, *target);
}

void ActiveTransfer::chunk_received(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  TransferStream& stream = streams_[what.stream];
  stream.end_receive();
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (error()) {
    const bool deliver = outcome.ok() && !stream.receives_terms();
    if (deliver && verify(stream, what.chunk, stream.landed_bytes(what.chunk)))
      stream.unpack(what.chunk);
    return finish_if_complete();
  }
  landed(what.stream, what.chunk);
}

void ActiveTransfer::landed(std::uint32_t index, std::uint32_t chunk) {
  TransferStream& stream = streams_[index];
  const FlowRole& role = stream.role();
  if (context_.verifies && !stream.is_verified(chunk) &&
      !verify(stream, chunk, stream.landed_bytes(chunk)))
    return;
  if (role.adds_own_term()) stream.add_term(chunk);
  record_progress();
  bytes_received_ += stream.chunk_size(chunk);
  ++remaining_;  // the transfer may end only at the end of this function
  stream.mark_landed(chunk);
  complete_one();
  pump(index);
  if (role.kind == FlowKind::kContribution) {
    if (reductions_[role.reduction].count_term(chunk)) reduce(role.reduction, chunk);
  } else {
    if (!role.adds_own_term() || role.stores_sum) stream.unpack(chunk);
    release_slot(index, chunk);
  }
  complete_one();
}

bool ActiveTransfer::verify(TransferStream& stream, std::uint32_t chunk,
                            std::span<const std::byte> bytes) {
  const auto damage = stream.verify(chunk, bytes);
  if (damage) fail(*damage, NotifyPeers::kWaiting);
  return !damage;
}

void ActiveTransfer::reduce(std::uint32_t index, std::uint32_t chunk) {
  TransferReduction& reduction = reductions_[index];
  std::vector<const std::byte*> terms(reduction.num_ranks());
  const auto for_each_term = [&](const auto& visit) {
    for (std::uint32_t rank = 0; rank < reduction.num_ranks(); ++rank)
      if (rank != reduction.own_rank()) visit(rank, reduction.term_streams()[rank]);
  };
  for_each_term([&](std::uint32_t rank, std::uint32_t stream) {
    terms[rank] = streams_[stream].slot_bytes(chunk).data();
  });
  reduction.reduce(chunk, terms);
  for_each_term([&](std::uint32_t, std::uint32_t stream) { release_slot(stream, chunk); });
  for (const std::uint32_t stream : reduction.result_streams()) {
    streams_[stream].make_ready(chunk);
    pump(stream);
  }
  ++remaining_;
  complete_one();
  for_each_term([&](std::uint32_t, std::uint32_t stream) { receive_held(stream); });
  complete_one();
}

void ActiveTransfer::release_slot(std::uint32_t index, std::uint32_t chunk) {
  if (streams_[index].release_slot(chunk)) receive_held(index);
}

void ActiveTransfer::receive_held(std::uint32_t index) {
  std::vector<TransferStream::Held>& held = streams_[index].held();
  for (std::size_t i = 0; !error() && i < held.size();) {
    const TransferStream::Held next = held[i];
    if (!can_receive(streams_[index], next.chunk)) {
      ++i;
      continue;
    }
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    take(index, next.chunk, next.message, {});
    i = 0;
  }
}

void ActiveTransfer::pump(std::uint32_t index) {
  if (error()) return;
  bool network = false;
  for (std::uint32_t i = 0; i < streams_[index].num_children(); ++i) {
    if (streams_[index].is_network(i)) network = true;
    else
      while (send_next(index, i)) {
      }
  }
  if (network) context_.port.schedule(*this, index);
}

bool ActiveTransfer::send_next(std::uint32_t index, std::uint32_t child) {
  TransferStream& stream = streams_[index];
  if (!stream.can_send(child)) return false;
  message_begun();
  context_.port.send(*this, stream.next_send(index, child));
  return true;
}

ActiveTransfer::NetworkUse ActiveTransfer::network_use(std::uint32_t stream) const {
  return {streams_[stream].wants_network(), streams_[stream].moves_on_network(),
          part_.egress_slots};
}

void ActiveTransfer::send_over_network(std::uint32_t stream) {
  for (std::uint32_t i = 0; i < streams_[stream].num_children(); ++i) {
    if (!streams_[stream].is_network(i)) continue;
    while (send_next(stream, i)) {
    }
  }
}

void ActiveTransfer::chunk_refused(DeviceId device, std::uint32_t flow, std::uint32_t chunk) {
  const auto index = error() ? std::nullopt : find_sending(flow);
  if (!index) return;
  streams_[*index].mark_held(device, chunk);
  pump(*index);
}

void ActiveTransfer::chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) {
  message_ended();
  TransferStream& stream = streams_[what.stream];
  stream.end_send(what.child, what.chunk);
  if (!outcome.ok()) fail(outcome.error(), NotifyPeers::kWaiting);
  if (error()) return finish_if_complete();
  stream.count_sent(what.child);
  bytes_sent_ += stream.chunk_size(what.chunk);
  ++remaining_;
  complete_one();
  release_slot(what.stream, what.chunk);
  pump(what.stream);
  complete_one();
}

bool ActiveTransfer::needs(DeviceId peer) const {
  return std::ranges::any_of(streams_,
                             [&](const TransferStream& stream) { return stream.needs(peer); });
}

std::set<DeviceId> ActiveTransfer::stop(bool keep_messages) {
  std::set<DeviceId> waiting;
  for (TransferStream& stream : streams_) {
    stream.add_waiting(waiting);
    if (keep_messages) continue;
    for (const TransferStream::Held& held : std::exchange(stream.held(), {}))
      context_.port.release(held.message);
  }
  return waiting;
}

std::set<DeviceId> ActiveTransfer::abandon_messages() {
  std::set<DeviceId> busy;
  for (TransferStream& stream : streams_) stream.abandon_messages(busy);
  return busy;
}

std::string ActiveTransfer::describe_missing() const {
  constexpr std::size_t kMaxItems = 3;
  std::vector<std::string> items;
  for (const TransferStream& stream : streams_)
    for (std::string& item : stream.describe_missing()) items.push_back(std::move(item));
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kMaxItems); ++i)
    text += (i > 0 ? "; " : "") + items[i];
  if (items.size() > kMaxItems) text += fmt::format("; and {} more", items.size() - kMaxItems);
  return text + ". Those devices may be stuck, or may not have started this transfer";
}

void ActiveTransfer::complete_one() {
  --remaining_;
  finish_if_complete();
}

TransferReport ActiveTransfer::report() const {
  TransferReport report = ActiveWork::report();
  if (!error()) return report;
  for (const TransferStream& stream : streams_)
    if (auto landed = stream.landed_chunks()) report.landed.push_back(*std::move(landed));
  return report;
}

}  // namespace weft::transfer
