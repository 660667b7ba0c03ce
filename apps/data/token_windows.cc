#include "apps/data/token_windows.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"

namespace weft::apps {

TokenWindows::TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed)
    : file_(file), sequence_(sequence), seed_(seed) {
  if (sequence < 1 || file.size() < static_cast<std::size_t>(sequence) + 1)
    throw_error(ErrorCode::kInvalidArgument,
                "a text of {} tokens has no window of {} tokens and the one after", file.size(),
                sequence);
  validation_order_ = SpreadOrder(num_disjoint_windows());
}

TokenWindows::TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed,
                           const SubsetConfig& subset)
    : TokenWindows(file, sequence, seed) {
  if (!subset.is_all())
    sampler_.emplace(subset, num_disjoint_windows(), windows_digest(),
                     "the text of this run in pieces of its sequence", seed);
}

std::string TokenWindows::windows_digest() const {
  const std::string what = fmt::format("windows|{}|{}", file_.sha256(), sequence_);
  return sha256(std::as_bytes(std::span(what)));
}

std::size_t TokenWindows::training_offset(std::int64_t step, std::int64_t row) const {
  if (sampler_) return sampler_->draw(step, row) * sequence_;
  const auto words = philox(seed_, step, row);
  const std::uint64_t random = (std::uint64_t{words[0]} << 32) | words[1];
  const std::uint64_t choices = file_.size() - sequence_;
  return random % choices;  // 64 random bits: the bias is below 2^-32
}

std::int64_t TokenWindows::num_disjoint_windows() const { return (file_.size() - 1) / sequence_; }

std::size_t TokenWindows::validation_offset(std::int64_t row) const {
  WEFT_CHECK(row >= 0, "row {}", row);
  return validation_order_[row] * static_cast<std::size_t>(sequence_);
}

void TokenWindows::read(std::size_t offset, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
  WEFT_CHECK(
      inputs.size() == static_cast<std::size_t>(sequence_) && targets.size() == inputs.size(),
      "{} {}", inputs.size(), targets.size());
  file_.read(offset, inputs);
  file_.read(offset + 1, targets);
}

}  // namespace weft::apps
