#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "apps/data/row_sampler.h"
#include "apps/data/spread_order.h"
#include "apps/data/token_file.h"

namespace weft::apps {

/// Which tokens each sequence of a step has: a pure function of (file, seed, step, row), so that
/// any device reads just its own rows and a resumed run sees the same data. Borrows the file. Any
/// thread.
///
/// A window is `sequence` inputs and, shifted by one, as many targets.
class TokenWindows {
 public:
  /// Throws Error(kInvalidArgument) if the file is too short for one window.
  TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed);
  /// Of a subset of the windows without overlap. Throws as RowSampler does.
  TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed, const SubsetConfig& subset);

  /// Training: the row-th sequence of a step begins at a random token; with a subset it is one of
  /// its windows.
  std::size_t training_offset(std::int64_t step, std::int64_t row) const;
  /// Validation: fixed windows without overlap, in an order that spreads any first few of them
  /// evenly over the file; they come again when there are more rows than windows.
  std::size_t validation_offset(std::int64_t row) const;
  /// How many windows without overlap the file has.
  std::int64_t num_disjoint_windows() const;
  /// Names these windows: of the tokens and their number in each.
  std::string windows_digest() const;
  /// The windows that training may draw; nothing without a subset.
  const std::optional<RowSampler>& sampler() const { return sampler_; }

  int sequence() const { return sequence_; }
  /// Fills one row: inputs and targets have `sequence` elements each.
  void read(std::size_t offset, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  const TokenFile& file_;
  int sequence_;
  std::uint64_t seed_;
  std::optional<RowSampler> sampler_;
  SpreadOrder validation_order_{1};  // of windows
};

}  // namespace weft::apps
