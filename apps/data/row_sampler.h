#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "apps/data/chosen_rows.h"
#include "apps/data/subset_config.h"

namespace weft::apps {

/// Sampler of training rows, with replacement, from all rows or a subset. The result is a function
/// of (key, step, row of the batch), so that any device draws its own rows only and resuming needs
/// no state. Callable from any thread.
class RowSampler final {
 public:
  /// Samples from data with `rows` rows and this digest. Throws as ChosenRows does; `what` is
  /// passed to it.
  RowSampler(const SubsetConfig& subset, std::size_t rows, const std::string& data_digest,
             const std::string& what, std::uint64_t key);

  /// Returns the number of rows that may be drawn.
  std::size_t size() const;
  std::size_t draw(std::uint64_t step, std::int64_t row) const;
  /// Identifies the rows that may be drawn. Empty if all may be drawn.
  const std::string& subset_digest() const { return subset_digest_; }

 private:
  struct All {
    std::size_t rows = 0;
  };
  std::variant<All, std::vector<std::uint32_t>, std::unique_ptr<const ChosenRows>> rows_;
  std::uint64_t key_;
  std::string subset_digest_;
};

}  // namespace weft::apps
