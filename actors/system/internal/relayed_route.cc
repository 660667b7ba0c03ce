#include "actors/system/internal/relayed_route.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace weft::actors {

namespace {

std::size_t bytes_of(const Reply& reply) {
  const auto* value = std::get_if<std::vector<std::byte>>(&reply.result);
  return value != nullptr ? value->size() : std::get<Error>(reply.result).message().size();
}

}  // namespace

bool RelayedRoute::expect(std::uint64_t call_id, std::shared_ptr<RelayedAnswers> tree,
                          std::shared_ptr<ReturnRoute> direct) {
  const std::lock_guard lock(mutex_);
  return expected_.try_emplace(call_id, Destination{std::move(tree), std::move(direct)}).second;
}

bool RelayedRoute::redirect(std::uint64_t call_id, const std::shared_ptr<ReturnRoute>& direct) {
  std::shared_ptr<RelayedAnswers> tree;
  {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(call_id);
    if (found == expected_.end()) return false;
    found->second.direct = direct;
    tree = std::exchange(found->second.tree, nullptr);
  }
  if (tree) tree->settle(call_id);
  return true;
}

std::optional<Reply> RelayedRoute::kept(std::uint64_t call_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(kept_, call_id, &Reply::id);
  return found == kept_.end() ? std::nullopt : std::optional(*found);
}

void RelayedRoute::drop_kept() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  kept_bytes_ = 0;
}

void RelayedRoute::forget(std::uint64_t call_id) {
  std::shared_ptr<RelayedAnswers> tree;
  {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(call_id);
    if (found == expected_.end()) return;
    tree = std::move(found->second.tree);
    expected_.erase(found);
  }
  if (tree) tree->settle(call_id);
}

void RelayedRoute::reply(Reply reply, bool more) {
  Destination destination;
  {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(reply.id);
    if (found == expected_.end()) return;
    destination = std::move(found->second);
    expected_.erase(found);
    if (!destination.direct) keep(reply);
  }
  if (destination.direct) destination.direct->reply(std::move(reply), more);
  else destination.tree->answer(std::move(reply));
}

void RelayedRoute::keep(const Reply& reply) {
  const std::size_t bytes = bytes_of(reply);
  if (bytes > kMaxKeptBytes) return;
  kept_.push_back(reply);
  kept_bytes_ += bytes;
  for (; kept_.size() > kMaxKept || kept_bytes_ > kMaxKeptBytes; kept_.pop_front())
    kept_bytes_ -= bytes_of(kept_.front());
}

}  // namespace weft::actors
