#pragma once

#include <cstddef>
#include <vector>

namespace weft::actors {

/// Ranks from which on the calls of a mesh travel a tree.
inline constexpr std::size_t kMinTreeRanks = 32;
/// Processes to which one process sends the calls of a tree, at most.
inline constexpr std::size_t kTreeFanOut = 16;

/// Neighbouring processes of a tree: [begin, end). The first one is the relay of the others.
struct TreeBlock {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const TreeBlock&, const TreeBlock&) = default;
};

/// Returns at most kTreeFanOut blocks of the processes [begin, end), which are in the order of
/// their ranks. The first process of each block gets its calls, and passes the others on to the
/// blocks of [its own + 1, end of its block).
///
/// All blocks but the first and the last begin and end at multiples of the same power of two, the
/// smallest that is enough: 100 processes are 13 blocks of 8, 1,000 are 16 blocks of 64. So a relay
/// has the results of neighbouring ranks, which reduce() combines first. In a heap, with children
/// 16 i + 1 to 16 i + 16, it would have those of distant ones.
std::vector<TreeBlock> tree_blocks(std::size_t begin, std::size_t end);

}  // namespace weft::actors
