#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/region.h"
#include "transfer/nccl/device_operations.h"

namespace weft::transfer {

/// A dense row-major box of memory that begins at `place`.
struct PlacedBox {
  BufferPlace place;
  Region box;
};

/// The copy of all of `region` from one box to another; both contain it. Dimensions that lie side
/// by side in both are one.
StridedCopy copy_between(const Region& region, std::size_t element_size, const PlacedBox& from,
                         const PlacedBox& to);

/// Copies of bytes [begin, begin + bytes) of `region`, taken as a dense run, between a box that
/// contains it and contiguous memory at `dense`. A range that begins or ends inside a row needs
/// several.
std::vector<StridedCopy> gather_copies(const Region& region, std::size_t element_size,
                                       std::uint64_t begin, std::uint64_t bytes,
                                       const PlacedBox& box, const BufferPlace& dense);
std::vector<StridedCopy> scatter_copies(const Region& region, std::size_t element_size,
                                        std::uint64_t begin, std::uint64_t bytes,
                                        const BufferPlace& dense, const PlacedBox& box);

}  // namespace weft::transfer
