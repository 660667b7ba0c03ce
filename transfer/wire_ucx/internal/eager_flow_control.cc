#include "transfer/wire_ucx/internal/eager_flow_control.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace weft::transfer {

std::vector<Token> EagerFlowControl::told(WireHeader::Kind kind, std::uint64_t bytes) {
  const auto more = [&](std::uint64_t so_far) { return so_far + std::min(bytes, sent_ - so_far); };
  if (kind == WireHeader::kCredit || kind == WireHeader::kUnbuffered) taken_ = more(taken_);
  if (kind == WireHeader::kCredit || kind == WireHeader::kBuffered) arrived_ = more(arrived_);
  std::vector<Token> finished;
  for (; !waiting_.empty() && !exceeds_window(waiting_.front().end); waiting_.pop_front())
    finished.push_back(waiting_.front().token);
  return finished;
}

std::vector<Token> EagerFlowControl::take_delayed() {
  std::vector<Token> tokens;
  for (const WaitingMessage& send : std::exchange(waiting_, {})) tokens.push_back(send.token);
  return tokens;
}

std::optional<std::size_t> EagerFlowControl::count(WireHeader::Kind kind, std::size_t bytes) {
  WEFT_CHECK(kind == WireHeader::kCredit || kind == WireHeader::kBuffered ||
                 kind == WireHeader::kUnbuffered,
             "kind {}", static_cast<int>(kind));
  std::size_t& untold = kind == WireHeader::kBuffered     ? untold_arrived_
                        : kind == WireHeader::kUnbuffered ? untold_left_
                                                          : untold_credit_;
  untold += bytes;
  if (untold < step_) return std::nullopt;
  return std::exchange(untold, 0);
}

}  // namespace weft::transfer
