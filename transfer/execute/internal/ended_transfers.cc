#include "transfer/execute/internal/ended_transfers.h"

#include <utility>

namespace weft::transfer {

namespace {
constexpr std::size_t kMaxRemembered = 4096;
}  // namespace

void EndedTransfers::remember(const TransferId& id) {
  if (!ids_.insert(id).second) return;
  order_.push_back(id);
  if (order_.size() <= kMaxRemembered) return;
  ids_.erase(order_.front());
  failures_.erase(order_.front());
  order_.pop_front();
}

void EndedTransfers::remember_failure(const TransferId& id, const Error& error) {
  remember(id);
  failures_.emplace(id, error);
}

std::optional<Error> EndedTransfers::take_failure(const TransferId& id) {
  auto failure = failures_.extract(id);
  return failure.empty() ? std::nullopt : std::optional(std::move(failure.mapped()));
}

}  // namespace weft::transfer
