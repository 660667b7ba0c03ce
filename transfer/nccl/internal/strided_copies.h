#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/region.h"
#include "transfer/nccl/device_operations.h"

namespace weft::transfer {

/// Dense row-major box in memory that begins at `place`.
struct PlacedBox {
  BufferPlace place;
  Region box;
};

/// Returns the copy of all of `region` between two boxes that contain it. Merges dimensions that
/// are contiguous in both.
StridedCopy copy_between(const Region& region, std::size_t element_size, const PlacedBox& from,
                         const PlacedBox& to);

/// Returns copies of bytes [begin, begin + bytes) of `region`, seen as a dense run, from a box that
/// contains it to contiguous memory at `dense`. A range that begins or ends inside a row needs
/// several.
std::vector<StridedCopy> gather_copies(const Region& region, std::size_t element_size,
                                       std::uint64_t begin, std::uint64_t bytes,
                                       const PlacedBox& box, const BufferPlace& dense);
std::vector<StridedCopy> scatter_copies(const Region& region, std::size_t element_size,
                                        std::uint64_t begin, std::uint64_t bytes,
                                        const BufferPlace& dense, const PlacedBox& box);

}  // namespace weft::transfer
