// Part of ActiveTransfer for chains of partial sums (FlowKind::kSum).
#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "transfer/execute/internal/active_transfer.h"
#include "transfer/execute/internal/reduce_terms.h"

namespace weft::transfer {

void ActiveTransfer::open_sum(StreamState& state) {
  const FlowRole& stream = *state.stream;
  const auto refuse = [&](const char* why) {
    throw_error(ErrorCode::kInvalidArgument, "flow {} of transfer {}, a sum: {}", stream.flow,
                to_string(id()), why);
  };
  if (stream.segments.empty()) refuse("it has no segments");
  for (const Segment& segment : stream.segments) {
    const TensorPart& tensor = part_.tensors.at(segment.tensor);
    if (segment.tensor == stream.segments.front().tensor) state.dtype = tensor.dtype;
    if (tensor.dtype != state.dtype) refuse("its tensors are of several types");
    // An in-place result of one region could arrive before another sum has read the term there.
    if (in_place(segment.tensor)) refuse("source and destination must not share memory");
  }
  if (!stream.adds_own_term()) return;
  if (state.dtype == DType::kU8) refuse("u8 cannot be summed; use f32, bf16, f64 or i32");
  if (stream.bytes % size_of(state.dtype) != 0 || stream.chunk_bytes % size_of(state.dtype) != 0)
    refuse("a chunk ends inside an element");
  state.term = SegmentedView(stream.segments, part_.tensors, SegmentedView::Side::kSource);
  if (state.term.bytes() != stream.bytes) refuse("its segments and the flow have different sizes");
  if (stream.stores_sum)
    state.view = SegmentedView(stream.segments, part_.tensors, SegmentedView::Side::kDestination);
}

void ActiveTransfer::add_term(StreamState& state, std::uint32_t chunk) {
  ChunkState& at_chunk = state.chunks[chunk];
  const std::span<std::byte> sum = at_chunk.slot.bytes();
  const std::size_t offset = chunk * state.stream->chunk_bytes;
  SlotPool::Slot packed;
  std::array<const std::byte*, 2> terms = {sum.data(), nullptr};
  if (const auto at = state.term.contiguous(offset, sum.size())) {
    terms[1] = sources_[at->tensor].data() + at->offset;
  } else {
    packed = context_.slots.take(sum.size());
    state.term.gather(sources_, offset, packed.bytes());
    terms[1] = packed.bytes().data();
  }
  reduce_terms(state.dtype, ReduceOp::kSum, terms, sum);
  at_chunk.crc = 0;  // the received CRC is no longer valid; a new one is taken when sending
}

}  // namespace weft::transfer
