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

/// Assignment of tokens to the sequences of a step. It is a pure function of (file, seed, step,
/// row), so that any device reads its own rows only and a resumed run sees the same data. Borrows
/// the file. Callable from any thread.
///
/// A window is `sequence` inputs and as many targets, which are the inputs shifted by one token.
class TokenWindows {
 public:
  /// Throws Error(kInvalidArgument) if the file is too short for one window.
  TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed);
  /// Restricts training to a subset of the disjoint windows. Throws as RowSampler does.
  TokenWindows(const TokenFile& file, int sequence, std::uint64_t seed, const SubsetConfig& subset);

  /// Returns the first token of a training sequence: a random token or, with a subset, the start of
  /// a random window of it.
  std::size_t training_offset(std::int64_t step, std::int64_t row) const;
  /// Returns the first token of a validation sequence. Validation windows are disjoint and come in
  /// an order whose every prefix is spread evenly over the file. They repeat after the last one.
  std::size_t validation_offset(std::int64_t row) const;
  /// Returns the number of disjoint windows in the file.
  std::int64_t num_disjoint_windows() const;
  /// Identifies the disjoint windows: a hash of the tokens and the window length.
  std::string windows_digest() const;
  /// Sampler of the windows that training may draw. Null without a subset.
  const std::optional<RowSampler>& sampler() const { return sampler_; }

  int sequence() const { return sequence_; }
  /// Reads one window. `inputs` and `targets` have `sequence` elements each.
  void read(std::size_t offset, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  const TokenFile& file_;
  int sequence_;
  std::uint64_t seed_;
  std::optional<RowSampler> sampler_;
  SpreadOrder validation_order_{1};  // over disjoint windows
};

}  // namespace weft::apps
