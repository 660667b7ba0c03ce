#include "mesh/runtime/staging_pool.h"

#include <algorithm>

namespace weft::mesh {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

StagingPool::Block StagingPool::take(std::size_t bytes) {
  const std::size_t rounded = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
  DeviceMemory memory;
  // Leaves blocks more than twice as large for larger requests.
  if (const auto found = free_.lower_bound(rounded);
      found != free_.end() && found->first <= 2 * rounded) {
    memory = std::move(found->second);
    free_.erase(found);
    kept_ -= memory.size();
  } else {
    memory = device_.allocate_staging(rounded);
  }
  in_use_ += memory.size();
  return {*this, std::move(memory), bytes};
}

void StagingPool::give_back(DeviceMemory memory) noexcept {
  const std::size_t size = memory.size();
  in_use_ -= size;
  kept_ += size;
  free_.emplace(size, std::move(memory));
  while (kept_ > most_kept_) {
    const auto largest = std::prev(free_.end());
    kept_ -= largest->first;
    free_.erase(largest);
  }
}

}  // namespace weft::mesh
