#include "transfer/execute/rate_meter.h"

#include <algorithm>
#include <cstddef>

namespace weft::transfer {

void RateMeter::completed(std::uint64_t bytes, bool busy, TimePoint now) {
  if (window_) {
    window_->bytes += bytes;
    const Nanoseconds passed = now - window_->began;
    if (passed >= kWindow) {
      seen_[num_seen_++ % kRemembered] =
          window_->bytes / std::chrono::duration<double>(passed).count();
      window_ = Window{now, 0};
    }
  } else {
    window_ = Window{now, 0};
  }
  if (!busy) idle();
}

std::optional<double> RateMeter::rate() const {
  if (num_seen_ < kEnough) return std::nullopt;
  return *std::max_element(
      seen_.begin(), seen_.begin() + static_cast<std::ptrdiff_t>(std::min(num_seen_, kRemembered)));
}

}  // namespace weft::transfer
