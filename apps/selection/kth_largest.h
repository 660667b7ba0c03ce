#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/codec/fields.h"

namespace weft::apps {

/// Finds the k-th largest of numbers that lie with many owners, exactly, in four passes: each owner
/// counts its numbers by the 16 bits in question, the counts are added up, and the search goes on
/// among those of one count. State and messages do not grow with the numbers.
class KthLargest {
 public:
  static constexpr std::size_t kBins = std::size_t{1} << 16;
  using Counts = std::vector<std::uint64_t>;  ///< By bin.

  /// `k` from 1.
  explicit KthLargest(std::uint64_t k = 1) : left_(k) {}

  /// What an owner adds to its counts for a number in this pass; nothing for one that is out.
  std::optional<std::size_t> bin_of(std::int64_t number) const;
  /// Ends a pass. `counts`: of all owners together. Throws Error(kInvalidArgument) if there are
  /// fewer than k numbers.
  void narrow(const Counts& counts);
  bool is_found() const { return pass_ == kPasses; }
  /// The k-th largest, once it is found.
  std::int64_t value() const;
  /// Of those equal to it, as many as are among the k largest.
  std::uint64_t ties() const { return left_; }

 private:
  static constexpr int kPasses = 4;
  int shift() const { return 16 * (kPasses - 1 - pass_); }

  std::uint64_t left_;        ///< Rank among those that are in.
  std::uint64_t prefix_ = 0;  ///< The upper bits of those that are in.
  int pass_ = 0;

 public:
  static constexpr auto fields =
      weft::fields(&KthLargest::left_, &KthLargest::prefix_, &KthLargest::pass_);
};

}  // namespace weft::apps
