#include "transfer/execute/internal/transfer_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/crc32c.h"
#include "transfer/execute/internal/reduce_terms.h"

namespace weft::transfer {

TransferStream::TransferStream(const TransferContext& context, const DevicePart& part,
                               const TransferBuffers& buffers, const FlowRole& role,
                               const TransferId& id)
    : context_(&context),
      part_(&part),
      buffers_(&buffers),
      role_(&role),
      id_(id),
      all_ready_(!role.parent && role.kind != FlowKind::kResult),
      chunks_(role.num_chunks()) {
  for (const DeviceId child : role.children)
    children_.push_back({child, context.orders_network && context.peers.is_over_network(child)});
  if (role.kind == FlowKind::kSum) open_sum();
  if (role.adds_own_term() || (role.parent && role.kind == FlowKind::kContribution)) return;
  view_ = SegmentedView(
      role.segments, part.tensors,
      all_ready_ ? SegmentedView::BoxSide::kSource : SegmentedView::BoxSide::kDestination);
  if (view_.bytes() != role.bytes)
    throw_error(ErrorCode::kInvalidArgument,
                "flow {} of transfer {} has {} bytes, but its segments {}", role.flow,
                to_string(id), role.bytes, view_.bytes());
}

void TransferStream::open_sum() {
  const auto refuse = [&](const char* why) {
    throw_error(ErrorCode::kInvalidArgument, "flow {} of transfer {}, a sum: {}", role_->flow,
                to_string(id_), why);
  };
  if (role_->segments.empty()) refuse("it has no segments");
  for (const Segment& segment : role_->segments) {
    const TensorPart& tensor = part_->tensors.at(segment.tensor);
    if (segment.tensor == role_->segments.front().tensor) dtype_ = tensor.dtype;
    if (tensor.dtype != dtype_) refuse("its tensors are of several types");
    // An in-place result of one region could arrive before another sum has read the term there.
    if (buffers_->in_place(segment.tensor)) refuse("source and destination must not share memory");
  }
  if (!role_->adds_own_term()) return;
  if (dtype_ == DType::kU8) refuse("u8 cannot be summed; use f32, bf16, f64 or i32");
  if (role_->bytes % size_of(dtype_) != 0 || role_->chunk_bytes % size_of(dtype_) != 0)
    refuse("a chunk ends inside an element");
  term_ = SegmentedView(role_->segments, part_->tensors, SegmentedView::BoxSide::kSource);
  if (term_.bytes() != role_->bytes) refuse("its segments and the flow have different sizes");
  if (role_->stores_sum)
    view_ = SegmentedView(role_->segments, part_->tensors, SegmentedView::BoxSide::kDestination);
}

std::size_t TransferStream::chunk_size(std::uint32_t chunk) const {
  return std::min(role_->chunk_bytes, role_->bytes - offset_of(chunk));
}

bool TransferStream::expects(DeviceId sender, std::uint32_t chunk, std::size_t bytes) const {
  return role_->parent == sender && chunk < chunks_.size() && bytes == chunk_size(chunk) &&
         !chunks_[chunk].seen;
}

void TransferStream::mark_seen(std::uint32_t chunk, std::uint32_t crc) {
  chunks_[chunk].seen = true;
  chunks_[chunk].crc = crc;
}

bool TransferStream::has_room_for(std::uint32_t chunk) const {
  if (children_.empty() || slots_in_use_ < 2 * role_->window) return true;
  return !role_->adds_own_term() && contiguous(chunk).has_value();
}

std::optional<std::span<std::byte>> TransferStream::place_of(std::uint32_t chunk) const {
  const auto at = receives_terms() ? std::nullopt : contiguous(chunk);
  if (!at) return std::nullopt;
  return buffers_->destinations[at->tensor].subspan(at->offset, chunk_size(chunk));
}

std::span<std::byte> TransferStream::stage(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  at_chunk.slot = context_->slots.take(chunk_size(chunk));
  // plus one user: until the chunk has been put in place or reduced
  at_chunk.users = 1 + static_cast<std::uint32_t>(children_.size());
  ++slots_in_use_;
  return at_chunk.slot.bytes();
}

std::span<const std::byte> TransferStream::landed_bytes(std::uint32_t chunk) {
  if (chunks_[chunk].slot) return chunks_[chunk].slot.bytes();
  const auto at = contiguous(chunk).value();
  return buffers_->destinations[at.tensor].subspan(at.offset, chunk_size(chunk));
}

std::optional<Error> TransferStream::verify(std::uint32_t chunk, std::span<const std::byte> bytes) {
  Chunk& at_chunk = chunks_[chunk];
  if (!context_->verifies) return std::nullopt;
  at_chunk.verified = true;
  if (at_chunk.crc == 0) return std::nullopt;
  const std::uint32_t sum = crc32c(bytes);
  if (sum == at_chunk.crc) return std::nullopt;
  return Error(
      ErrorCode::kDataLoss,
      fmt::format("chunk {} of flow {} of transfer {} from {} arrived damaged: its CRC32C is "
                  "{:08x}, expected {:08x}. Check memory and network hardware of both hosts",
                  chunk, role_->flow, to_string(id_), context_->peers.name_of(*role_->parent), sum,
                  at_chunk.crc));
}

void TransferStream::add_term(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  const std::span<std::byte> sum = at_chunk.slot.bytes();
  SlotPool::LeasedSlot packed;
  std::array<const std::byte*, 2> terms = {sum.data(), nullptr};
  if (const auto at = term_.contiguous(offset_of(chunk), sum.size())) {
    terms[1] = buffers_->sources[at->tensor].data() + at->offset;
  } else {
    packed = context_->slots.take(sum.size());
    term_.gather(buffers_->sources, offset_of(chunk), packed.bytes());
    terms[1] = packed.bytes().data();
  }
  reduce_terms(dtype_, ReduceOp::kSum, terms, sum);
  at_chunk.crc = 0;  // the received CRC is no longer valid; a new one is taken when sending
}

void TransferStream::mark_landed(std::uint32_t chunk) {
  ++landed_;
  ready_.push_back(chunk);
}

void TransferStream::scatter(std::uint32_t chunk, std::span<const std::byte> bytes) const {
  view_.scatter(bytes, offset_of(chunk), buffers_->destinations);
}

void TransferStream::unpack(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  if (at_chunk.slot) scatter(chunk, at_chunk.slot.bytes());
  at_chunk.is_unpacked = true;
}

bool TransferStream::release_slot(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  if (!at_chunk.slot || --at_chunk.users != 0) return false;
  at_chunk.slot = SlotPool::LeasedSlot();
  --slots_in_use_;
  return true;
}

std::optional<LandedChunks> TransferStream::landed_chunks() const {
  if (!role_->parent || receives_terms()) return std::nullopt;
  LandedChunks landed = LandedChunks::none(role_->flow, role_->num_chunks());
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk)
    if (chunks_[chunk].is_unpacked) landed.set(chunk);
  return landed;
}

bool TransferStream::can_send(std::uint32_t index) const {
  const TreeChild& child = children_[index];
  const std::size_t available = all_ready_ ? chunks_.size() : ready_.size();
  if (child.next >= available || child.in_flight.size() >= role_->window) return false;
  const std::uint32_t chunk = next_chunk(child);
  return chunks_[chunk].slot || slots_in_use_ < 2 * role_->window || contiguous(chunk).has_value();
}

OutgoingChunk TransferStream::next_send(std::uint32_t stream, std::uint32_t index) {
  TreeChild& child = children_[index];
  const std::uint32_t chunk = next_chunk(child);
  const bool first = child.next++ == 0;
  child.in_flight.push_back({chunk, false});
  const std::span<const std::byte> bytes = sent_bytes(chunk);
  std::uint32_t& crc = chunks_[chunk].crc;
  if (context_->verifies && crc == 0) crc = crc32c(bytes);
  return {{stream, index, chunk}, child.device, role_->outgoing_id(), crc, bytes, first};
}

std::span<const std::byte> TransferStream::sent_bytes(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  if (at_chunk.slot) return at_chunk.slot.bytes();
  if (const auto at = contiguous(chunk)) {
    const std::span<const std::byte> from =
        all_ready_ ? buffers_->sources[at->tensor] : buffers_->destinations[at->tensor];
    return from.subspan(at->offset, chunk_size(chunk));
  }
  pack(chunk);
  return at_chunk.slot.bytes();
}

void TransferStream::pack(std::uint32_t chunk) {
  Chunk& at_chunk = chunks_[chunk];
  at_chunk.slot = context_->slots.take(chunk_size(chunk));
  at_chunk.users = static_cast<std::uint32_t>(children_.size());
  ++slots_in_use_;
  if (all_ready_) view_.gather(buffers_->sources, offset_of(chunk), at_chunk.slot.bytes());
  else view_.gather(buffers_->readable_destinations, offset_of(chunk), at_chunk.slot.bytes());
}

void TransferStream::mark_held(DeviceId device, std::uint32_t chunk) {
  for (TreeChild& child : children_) {
    if (child.device != device) continue;
    for (SentChunk& sent : child.in_flight) sent.held |= sent.chunk == chunk;
  }
}

void TransferStream::end_send(std::uint32_t child, std::uint32_t chunk) {
  std::erase_if(children_[child].in_flight,
                [&](const SentChunk& sent) { return sent.chunk == chunk; });
}

bool TransferStream::wants_network() const {
  for (std::uint32_t i = 0; i < children_.size(); ++i)
    if (children_[i].network && can_send(i)) return true;
  return false;
}

bool TransferStream::moves_on_network() const {
  return std::ranges::any_of(children_, [](const TreeChild& child) {
    return child.network &&
           std::ranges::any_of(child.in_flight, [](SentChunk sent) { return !sent.held; });
  });
}

bool TransferStream::needs(DeviceId peer) const {
  if (role_->parent == peer && landed_ < chunks_.size()) return true;
  return std::ranges::any_of(children_, [&](const TreeChild& child) {
    return child.device == peer && child.done < chunks_.size();
  });
}

void TransferStream::add_waiting(std::set<DeviceId>& waiting) const {
  if (role_->parent && landed_ < chunks_.size()) waiting.insert(*role_->parent);
  for (const TreeChild& child : children_)
    if (child.done < chunks_.size()) waiting.insert(child.device);
}

void TransferStream::abandon_messages(std::set<DeviceId>& busy) {
  if (receiving_ > 0 || !held_.empty()) busy.insert(*role_->parent);
  held_.clear();
  for (const TreeChild& child : children_)
    if (!child.in_flight.empty()) busy.insert(child.device);
}

std::vector<std::string> TransferStream::describe_missing() const {
  std::vector<std::string> missing;
  const auto total = chunks_.size();
  if (role_->parent && landed_ < total)
    missing.push_back(fmt::format("received {} of {} chunks of flow {} from {}", landed_, total,
                                  role_->flow, context_->peers.name_of(*role_->parent)));
  for (const TreeChild& child : children_)
    if (child.done < total)
      missing.push_back(fmt::format("sent {} of {} chunks of flow {} to {} ({} in flight)",
                                    child.done, total, role_->outgoing_id(),
                                    context_->peers.name_of(child.device), child.in_flight.size()));
  return missing;
}

}  // namespace weft::transfer
