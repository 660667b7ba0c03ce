#include "apps/selection/greedy.h"

#include <algorithm>

namespace weft::apps {

std::vector<ChosenPoint> choose_greedily(const PointGraph& graph, const Objective& objective,
                                         std::size_t count, std::uint64_t seed) {
  std::vector<std::int64_t> gains = graph.gains;
  std::vector<bool> is_chosen(graph.size(), false);
  // Ties are rare, so hashes are computed only when gains are equal.
  const auto comes_after = [&](const ChosenPoint& a, const ChosenPoint& b) {
    if (a.gain != b.gain) return a.gain < b.gain;
    return PointRank(b.gain, graph.ids[b.row], seed)
        .comes_before(PointRank(a.gain, graph.ids[a.row], seed));
  };
  std::vector<ChosenPoint> heap(graph.size());
  for (std::uint32_t row = 0; row < graph.size(); ++row) heap[row] = {row, gains[row]};
  std::ranges::make_heap(heap, comes_after);
  std::vector<ChosenPoint> chosen;
  while (chosen.size() < count && !heap.empty()) {
    std::ranges::pop_heap(heap, comes_after);
    ChosenPoint& last = heap.back();
    if (last.gain != gains[last.row]) {
      last.gain = gains[last.row];
      std::ranges::push_heap(heap, comes_after);
      continue;
    }
    const ChosenPoint best = last;
    heap.pop_back();
    chosen.push_back(best);
    is_chosen[best.row] = true;
    for (std::uint64_t edge = graph.first[best.row]; edge < graph.first[best.row + 1]; ++edge) {
      const std::uint32_t neighbour = graph.neighbours[edge];
      if (!is_chosen[neighbour])
        gains[neighbour] -= objective.redundancy_loss(graph.similarities[edge]);
    }
  }
  return chosen;
}

}  // namespace weft::apps
