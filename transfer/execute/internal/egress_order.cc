#include "transfer/execute/internal/egress_order.h"

namespace weft::transfer {

void EgressOrder::update(const Key& key, bool wants, bool moves) {
  const auto found = streams_.find(key);
  if (found != streams_.end() && found->second.moves) --moving_;
  if (moves) ++moving_;
  if (!wants && !moves) {
    if (found != streams_.end()) streams_.erase(found);
  } else if (found != streams_.end()) {
    found->second = {wants, moves};
  } else {
    streams_.emplace(key, State{wants, moves});
  }
}

std::optional<EgressOrder::Key> EgressOrder::next() const {
  std::size_t rank = 0;
  for (const auto& [key, state] : streams_) {
    if (rank++ == max_streams_) break;
    if (state.wants && (state.moves || moving_ < max_streams_)) return key;
  }
  return std::nullopt;
}

void EgressOrder::remove(std::uint64_t transfer) {
  const auto begin = streams_.lower_bound({transfer, 0}), end = streams_.lower_bound({transfer + 1, 0});
  for (auto it = begin; it != end; ++it) moving_ -= it->second.moves ? 1 : 0;
  streams_.erase(begin, end);
}

}  // namespace weft::transfer
