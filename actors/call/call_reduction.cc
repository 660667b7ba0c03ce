#include "actors/call/call_reduction.h"

#include <fmt/format.h>

#include "core/base/check.h"

namespace weft::actors {

std::shared_ptr<CallReduction> CallReduction::make(std::vector<std::shared_ptr<CallState>> parts,
                                                   ReduceOperation operation,
                                                   CombineResults combine) {
  WEFT_CHECK(!parts.empty() && combine != nullptr, "a reduction without calls or function");
  std::shared_ptr<CallReduction> reduction(new CallReduction(std::move(parts), operation, combine));
  for (std::size_t i = 0; i < reduction->parts_.size(); ++i)
    reduction->parts_[i]->when_done([reduction, i] { reduction->part_done(i); });
  return reduction;
}

void CallReduction::part_done(std::size_t rank) {
  CallState& part = *parts_[rank];
  if (part.error()) return fail(*part.error());
  if (operation_ != ReduceOperation::kListed && !done()) {
    try {
      add(rank, part.take_result().value());
    } catch (...) {  // also what is no Error, such as std::bad_alloc
      return fail(current_error());
    }
  }
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1 && claim()) publish();
}

void CallReduction::fail(const Error& error) {
  if (!claim()) return;
  error_ = error;
  publish();
  for (const auto& part : parts_) part->cancel();
}

void CallReduction::cancel() {
  if (done()) return;
  fail(Error(ErrorCode::kCancelled,
             fmt::format("the call '{}' of {} actors was cancelled before all had answered",
                         parts_.front()->method, parts_.size())));
}

void CallReduction::add(std::size_t rank, std::vector<std::byte> result) {
  std::size_t index = rank;
  std::size_t level = 0;
  // Number of nodes of the level.
  for (std::size_t nodes = parts_.size(); nodes > 1; nodes = (nodes + 1) / 2) {
    const std::size_t neighbour = index ^ 1;
    if (neighbour < nodes) {
      std::vector<std::byte> other;
      {
        const std::lock_guard lock(mutex_);
        const auto found = waiting_.find({level, neighbour});
        if (found == waiting_.end()) {
          waiting_.emplace(Node(level, index), std::move(result));
          return;
        }
        other = std::move(found->second);
        waiting_.erase(found);
      }
      result = index < neighbour
                   ? combine_nodes({level, index}, std::move(result), std::move(other))
                   : combine_nodes({level, neighbour}, std::move(other), std::move(result));
    }
    ++level;
    index /= 2;
  }
  const std::lock_guard lock(mutex_);
  waiting_.emplace(Node(level, index), std::move(result));
}

std::vector<std::byte> CallReduction::combine_nodes(Node left, std::vector<std::byte> a,
                                                    std::vector<std::byte> b) {
  const auto& [level, index] = left;
  try {
    return combine_(operation_, std::move(a), b, decode_context());
  } catch (...) {
    // All results of one side fit each other, so its first rank stands for it.
    const Error error = current_error();
    throw Error(error.code(),
                fmt::format("cannot combine the results of '{}' of {} and {}: {}",
                            parts_.front()->method, parts_[index << level]->target->label,
                            parts_[(index + 1) << level]->target->label, error.message()))
        .at(error.where());
  }
}

std::vector<std::byte> CallReduction::take() {
  if (error_) throw *error_;
  if (operation_ == ReduceOperation::kListed)
    for (std::size_t i = 0; i < parts_.size(); ++i) add(i, parts_[i]->take_result().value());
  const std::lock_guard lock(mutex_);
  WEFT_CHECK(waiting_.size() == 1, "{} partial results are left", waiting_.size());
  return std::move(waiting_.begin()->second);
}

}  // namespace weft::actors
