#include "apps/selection/kth_largest.h"

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

/// Maps a number to an unsigned one of the same order.
std::uint64_t ordered(std::int64_t number) { return static_cast<std::uint64_t>(number) ^ kSign; }

}  // namespace

std::optional<std::size_t> KthLargest::bin_of(std::int64_t number) const {
  WEFT_CHECK(!is_found());
  const std::uint64_t bits = ordered(number) >> shift();
  if (pass_ > 0 && bits >> 16 != prefix_) return std::nullopt;
  return bits & (kBins - 1);
}

void KthLargest::end_pass(const Counts& counts) {
  WEFT_CHECK(counts.size() == kBins && !is_found(), "{} counts", counts.size());
  for (std::size_t bin = kBins; bin-- > 0;) {
    if (rank_ > counts[bin]) {
      rank_ -= counts[bin];
      continue;
    }
    prefix_ = prefix_ << 16 | bin;
    ++pass_;
    return;
  }
  throw_error(ErrorCode::kInvalidArgument,
              "no k-th largest number: k exceeds the count of numbers by {}; choose a smaller k",
              rank_);
}

std::int64_t KthLargest::value() const {
  WEFT_CHECK(is_found());
  return static_cast<std::int64_t>(prefix_ ^ kSign);
}

}  // namespace weft::apps
