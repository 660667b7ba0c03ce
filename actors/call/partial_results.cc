#include "actors/call/partial_results.h"

#include <utility>

namespace weft::actors {

void PartialResults::add(PartialResult part) {
  // Number of nodes of the part's level.
  std::size_t nodes = num_ranks_;
  for (std::size_t level = 0; level < part.level; ++level) nodes = (nodes + 1) / 2;
  for (; nodes > 1; nodes = (nodes + 1) / 2) {
    const std::size_t neighbour = part.index ^ 1;
    if (neighbour < nodes) {
      PartialResult other;
      {
        const std::lock_guard lock(mutex_);
        const auto found = waiting_.find({part.level, neighbour});
        if (found == waiting_.end()) {
          waiting_.emplace(Node(part.level, part.index), std::move(part));
          return;
        }
        other = std::move(found->second);
        waiting_.erase(found);
      }
      if (neighbour < part.index) std::swap(part, other);
      if (!combine_(part, other)) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(Node(other.level, other.index), std::move(other));
        waiting_.emplace(Node(part.level, part.index), std::move(part));
        return;
      }
      part.ids.insert(part.ids.end(), other.ids.begin(), other.ids.end());
    }
    ++part.level;
    part.index /= 2;
  }
  const std::lock_guard lock(mutex_);
  waiting_.emplace(Node(part.level, part.index), std::move(part));
}

std::vector<PartialResult> PartialResults::take() {
  const std::lock_guard lock(mutex_);
  std::vector<PartialResult> parts;
  parts.reserve(waiting_.size());
  for (auto& [node, part] : waiting_) parts.push_back(std::move(part));
  waiting_.clear();
  return parts;
}

}  // namespace weft::actors
