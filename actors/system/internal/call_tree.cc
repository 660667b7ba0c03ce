#include "actors/system/internal/call_tree.h"

#include <algorithm>

namespace weft::actors {

std::vector<TreeBlock> tree_blocks(std::size_t begin, std::size_t end) {
  std::size_t size = 1;
  while (begin < end && (end - 1) / size - begin / size >= kTreeFanOut) size *= 2;
  std::vector<TreeBlock> blocks;
  while (begin < end) {
    const std::size_t next = std::min(end, (begin / size + 1) * size);
    blocks.push_back({begin, next});
    begin = next;
  }
  return blocks;
}

}  // namespace weft::actors
