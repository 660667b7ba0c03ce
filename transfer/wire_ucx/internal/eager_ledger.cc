#include "transfer/wire_ucx/internal/eager_ledger.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace weft::transfer {

std::vector<Token> EagerLedger::told(Prefix::Kind kind, std::uint64_t bytes) {
  const auto more = [&](std::uint64_t so_far) { return so_far + std::min(bytes, sent_ - so_far); };
  if (kind == Prefix::kCredit || kind == Prefix::kLeft) taken_ = more(taken_);
  if (kind == Prefix::kCredit || kind == Prefix::kArrived) arrived_ = more(arrived_);
  std::vector<Token> finished;
  for (; !waiting_.empty() && !is_far_ahead(waiting_.front().end); waiting_.pop_front())
    finished.push_back(waiting_.front().token);
  return finished;
}

std::vector<Token> EagerLedger::abandon() {
  std::vector<Token> tokens;
  for (const Waiting& send : std::exchange(waiting_, {})) tokens.push_back(send.token);
  return tokens;
}

std::optional<std::size_t> EagerLedger::count(Prefix::Kind kind, std::size_t bytes) {
  WEFT_CHECK(kind == Prefix::kCredit || kind == Prefix::kArrived || kind == Prefix::kLeft,
             "kind {}", static_cast<int>(kind));
  std::size_t& untold = kind == Prefix::kArrived ? untold_arrived_
                        : kind == Prefix::kLeft  ? untold_left_
                                                 : untold_credit_;
  untold += bytes;
  if (untold < step_) return std::nullopt;
  return std::exchange(untold, 0);
}

}  // namespace weft::transfer
