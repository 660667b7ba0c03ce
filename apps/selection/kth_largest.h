#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/codec/fields.h"

namespace weft::apps {

/// Exact search for the k-th largest number among those of many owners, in four passes. In a pass,
/// each owner counts its numbers by 16 of their bits, the counts are added up, and the search
/// continues in one bin. State and messages do not grow with the numbers.
class KthLargest {
 public:
  static constexpr std::size_t kBins = std::size_t{1} << 16;
  using Counts = std::vector<std::uint64_t>;  ///< Counts by bin.

  /// Starts a search. `k` is at least 1.
  explicit KthLargest(std::uint64_t k = 1) : rank_(k) {}

  /// Returns the bin in which an owner counts a number in this pass. Null if the number is
  /// excluded.
  std::optional<std::size_t> bin_of(std::int64_t number) const;
  /// Ends a pass. `counts` is the sum over all owners. Throws Error(kInvalidArgument) if there are
  /// fewer than k numbers.
  void end_pass(const Counts& counts);
  bool is_found() const { return pass_ == kPasses; }
  /// Returns the k-th largest number. Call after is_found().
  std::int64_t value() const;
  /// Returns how many of the numbers equal to value() are among the k largest.
  std::uint64_t ties() const { return rank_; }

 private:
  static constexpr int kPasses = 4;
  int shift() const { return 16 * (kPasses - 1 - pass_); }

  std::uint64_t rank_;        ///< Rank among the candidates.
  std::uint64_t prefix_ = 0;  ///< Upper bits of the candidates.
  int pass_ = 0;

 public:
  static constexpr auto fields =
      weft::fields(&KthLargest::rank_, &KthLargest::prefix_, &KthLargest::pass_);
};

}  // namespace weft::apps
