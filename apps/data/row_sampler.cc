#include "apps/data/row_sampler.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/philox.h"
#include "core/base/sha256.h"

namespace weft::apps {

RowSampler::RowSampler(const SubsetConfig& subset, std::size_t rows, const std::string& data_digest,
                       const std::string& what, std::uint64_t key)
    : rows_(All{rows}), key_(key) {
  if (subset.is_all()) return;
  if (subset.folder.empty()) {
    const auto count = static_cast<std::size_t>(std::llround(subset.random_fraction * rows));
    std::vector<std::uint32_t> chosen =
        random_rows(rows, std::clamp<std::size_t>(count, 1, rows), subset.seed);
    subset_digest_ = sha256(std::as_bytes(std::span(chosen)));
    rows_ = std::move(chosen);
  } else {
    auto chosen = std::make_unique<const ChosenRows>(subset.folder, data_digest, rows, what);
    subset_digest_ = chosen->sha256();
    rows_ = std::move(chosen);
  }
}

std::size_t RowSampler::size() const {
  if (const auto* all = std::get_if<All>(&rows_)) return all->rows;
  if (const auto* some = std::get_if<std::vector<std::uint32_t>>(&rows_)) return some->size();
  return std::get<std::unique_ptr<const ChosenRows>>(rows_)->size();
}

std::size_t RowSampler::draw(std::uint64_t step, std::int64_t row) const {
  const auto words = philox(key_, step, row);
  const std::uint64_t random = (std::uint64_t{words[0]} << 32) | words[1];
  const std::size_t i = random % size();  // 64 random bits: the bias is below 2^-32
  if (std::holds_alternative<All>(rows_)) return i;
  if (const auto* some = std::get_if<std::vector<std::uint32_t>>(&rows_)) return (*some)[i];
  return (*std::get<std::unique_ptr<const ChosenRows>>(rows_))[i];
}

}  // namespace weft::apps
