#include "transfer/execute/internal/transfer_reduction.h"

#include <algorithm>

#include "core/base/check.h"
#include "transfer/execute/internal/reduce_terms.h"

namespace weft::transfer {

TransferReduction::TransferReduction(SlotPool& slots, const DevicePart& part,
                                     const TransferBuffers& buffers, const Reduction& reduction)
    : slots_(&slots),
      part_(&part),
      buffers_(&buffers),
      reduction_(&reduction),
      arrived_(reduction.num_chunks()),
      term_streams_(reduction.num_ranks),
      reduced_(reduction.num_chunks()) {
  const TensorPart& tensor = part.tensors.at(0);
  WEFT_CHECK(part.tensors.size() == 1 && tensor.source && tensor.destination,
             "a reduction needs both boxes of one tensor");
  source_ = StridedView(reduction.region, *tensor.source, size_of(tensor.dtype));
  destination_ = StridedView(reduction.region, *tensor.destination, size_of(tensor.dtype));
}

void TransferReduction::reduce(std::uint32_t chunk, std::span<const std::byte*> terms) {
  const std::size_t offset = chunk * reduction_->chunk_bytes;
  const std::size_t bytes = std::min(reduction_->chunk_bytes, reduction_->bytes - offset);
  SlotPool::LeasedSlot own_slot, out_slot;
  const std::byte*& own = terms[reduction_->own_rank];
  if (const auto at = source_.contiguous(offset, bytes)) {
    own = buffers_->sources[0].data() + *at;
  } else {
    own_slot = slots_->take(bytes);
    source_.gather(buffers_->sources[0].data(), offset, own_slot.bytes());
    own = own_slot.bytes().data();
  }
  const DType dtype = part_->tensors[0].dtype;
  const std::span<std::byte> destination = buffers_->destinations[0];
  if (const auto at = destination_.contiguous(offset, bytes)) {
    reduce_terms(dtype, reduction_->op, terms, destination.subspan(*at, bytes));
  } else {
    out_slot = slots_->take(bytes);
    reduce_terms(dtype, reduction_->op, terms, out_slot.bytes());
    destination_.scatter(out_slot.bytes(), offset, destination.data());
  }
  reduced_[chunk] = true;
  while (prefix_ < reduced_.size() && reduced_[prefix_]) ++prefix_;
}

}  // namespace weft::transfer
