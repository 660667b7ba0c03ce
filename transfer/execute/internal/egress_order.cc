#include "transfer/execute/internal/egress_order.h"

#include <algorithm>

namespace weft::transfer {

void EgressOrder::count_places(std::size_t places, bool takes_part) {
  if (places == 0) return;
  if (takes_part) ++places_[places];
  else if (--places_[places] == 0) places_.erase(places);
}

void EgressOrder::update(const Key& key, bool wants, bool moves, std::size_t places) {
  const auto found = streams_.find(key);
  if (found != streams_.end()) {
    if (found->second.moves) --moving_;
    count_places(found->second.places, false);
    if (!wants && !moves) streams_.erase(found);
  }
  if (!wants && !moves) return;
  if (moves) ++moving_;
  count_places(places, true);
  streams_.insert_or_assign(key, State{wants, moves, places});
}

std::optional<EgressOrder::Key> EgressOrder::next() const {
  // Compares the moving streams with the largest limit of any transfer, so that a transfer with a
  // small limit does not wait for a later one with a large limit.
  const std::size_t most = max_limit();
  std::size_t rank = 0;
  for (const auto& [key, state] : streams_) {
    if (rank == most) break;
    const std::size_t places = state.places == 0 ? max_streams_ : state.places;
    if (rank++ < places && state.wants && (state.moves || moving_ < most)) return key;
  }
  return std::nullopt;
}

void EgressOrder::remove(std::uint64_t transfer) {
  const auto begin = streams_.lower_bound({transfer, 0}),
             end = streams_.lower_bound({transfer + 1, 0});
  for (auto it = begin; it != end; ++it) {
    moving_ -= it->second.moves ? 1 : 0;
    count_places(it->second.places, false);
  }
  streams_.erase(begin, end);
}

}  // namespace weft::transfer
