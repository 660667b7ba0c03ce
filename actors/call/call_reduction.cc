#include "actors/call/call_reduction.h"

#include <fmt/format.h>

#include "core/base/check.h"

namespace weft::actors {

CallReduction::CallReduction(std::vector<std::shared_ptr<CallState>> parts,
                             ReduceOperation operation, CombineResults combine)
    : parts_(std::move(parts)),
      operation_(operation),
      combine_(combine),
      left_(parts_.size()),
      partial_(parts_.size(), [this](PartialResult& left, const PartialResult& right) {
        combine_parts(left, right);
        return true;
      }) {}

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
      add(rank);
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
                         parts_.front()->method, parts_.size()))
           .with(progress()));
}

void CallReduction::add(std::size_t rank) {
  CallState& part = *parts_[rank];
  if (part.is_covered()) return;
  const std::size_t level = part.level();
  partial_.add({level, rank >> level, part.take_result().value(), {}});
}

void CallReduction::combine_parts(PartialResult& left, const PartialResult& right) const {
  try {
    combine_(operation_, left.value, right.value, decode_context());
  } catch (...) {
    // All results of one side fit each other, so its first rank stands for it.
    const Error error = current_error();
    throw Error(error.code(),
                fmt::format("cannot combine the results of '{}' of {} and {}: {}",
                            parts_.front()->method, parts_[left.index << left.level]->target->label,
                            parts_[right.index << right.level]->target->label, error.message()))
        .at(error.where())
        .with(CallProgress::kReplyLost);
  }
}

std::vector<std::byte> CallReduction::take() {
  if (error_) throw *error_;
  if (operation_ == ReduceOperation::kListed)
    for (std::size_t i = 0; i < parts_.size(); ++i) add(i);
  auto parts = partial_.take();
  WEFT_CHECK(parts.size() == 1, "{} partial results are left", parts.size());
  return std::move(parts.front().value);
}

}  // namespace weft::actors
