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

/// Draws training rows, with replacement, from all rows or those of a subset: a function of
/// (key, step, row of the batch) alone, so that any device draws just its own, and resuming needs
/// no state. Any thread.
class RowSampler final {
 public:
  /// Of data with this many rows and this digest; `what` as for ChosenRows, which says what is
  /// thrown.
  RowSampler(const SubsetConfig& subset, std::size_t rows, const std::string& data_digest,
             const std::string& what, std::uint64_t key);

  /// That may be drawn.
  std::size_t size() const;
  std::size_t draw(std::uint64_t step, std::int64_t row) const;
  /// Names which may be drawn; empty if all.
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
