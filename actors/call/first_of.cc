#include "actors/call/first_of.h"

#include <algorithm>

namespace weft::actors {

std::shared_ptr<FirstDone> FirstDone::make(
    const std::vector<std::shared_ptr<Pending>>& operations) {
  if (operations.empty())
    throw_error(ErrorCode::kInvalidArgument, "first_of() got no Futures; give it at least one");
  if (const auto empty = std::ranges::find(operations, nullptr); empty != operations.end())
    throw_error(ErrorCode::kInvalidArgument,
                "the Future {} of first_of() is empty: it was moved from; remove it first",
                empty - operations.begin());
  std::shared_ptr<FirstDone> first(new FirstDone(operations));
  for (std::size_t i = 0; i < operations.size(); ++i)
    operations[i]->watch(first.get(), [weak = std::weak_ptr(first), i] {
      if (const auto queue = weak.lock()) queue->push({i, std::vector<std::byte>(), nullptr});
    });
  return first;
}

FirstDone::~FirstDone() {
  for (const auto& each : operations_)
    if (const auto operation = each.lock()) operation->forget(this);
}

Future<std::size_t> FirstDone::index_of(const std::shared_ptr<FirstDone>& first) {
  return Future<std::size_t>(first->next(),
                             [](Pending& next) { return CompletionQueue::take(next)->key; });
}

}  // namespace weft::actors
