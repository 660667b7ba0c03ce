#include "transfer/execute/rate_meter.h"

namespace weft::transfer {

void RateMeter::completed(std::uint64_t bytes, bool busy, TimePoint now) {
  if (window_) {
    window_->bytes += bytes;
    const Nanoseconds passed = now - window_->began;
    if (passed >= kWindow) {
      const double rate = static_cast<double>(window_->bytes) / std::chrono::duration<double>(passed).count();
      rate_ = rate_ ? *rate_ + kNewest * (rate - *rate_) : rate;
      window_ = Window{now, 0};
    }
  } else {
    window_ = Window{now, 0};
  }
  if (!busy) idle();
}

}  // namespace weft::transfer
