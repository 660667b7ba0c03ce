#include "transfer/execute/internal/egress_order.h"

#include <algorithm>

namespace weft::transfer {

void EgressOrder::update(const Key& key, bool wants, bool moves, std::size_t places) {
  most_places_ = std::max(most_places_, places);
  const auto found = streams_.find(key);
  if (found != streams_.end() && found->second.moves) --moving_;
  if (moves) ++moving_;
  if (!wants && !moves) {
    if (found != streams_.end()) streams_.erase(found);
  } else if (found != streams_.end()) {
    found->second = {wants, moves, places};
  } else {
    streams_.emplace(key, State{wants, moves, places});
  }
}

std::optional<EgressOrder::Key> EgressOrder::next() const {
  // A transfer with few places is not to wait for a later one with many: what moves counts against the most that any has.
  const std::size_t most = std::max(max_streams_, most_places_);
  std::size_t rank = 0;
  for (const auto& [key, state] : streams_) {
    if (rank == most) break;
    const std::size_t places = state.places == 0 ? max_streams_ : state.places;
    if (rank++ < places && state.wants && (state.moves || moving_ < most)) return key;
  }
  return std::nullopt;
}

void EgressOrder::remove(std::uint64_t transfer) {
  const auto begin = streams_.lower_bound({transfer, 0}), end = streams_.lower_bound({transfer + 1, 0});
  for (auto it = begin; it != end; ++it) moving_ -= it->second.moves ? 1 : 0;
  streams_.erase(begin, end);
}

}  // namespace weft::transfer
