#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/data/text_data_config.h"
#include "apps/data/text_dataset.h"
#include "apps/data/token_windows.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// What a device process needs to read its share of a text: sent by the driver.
struct TextBatchesRecipe {
  TextDataConfig data;            ///< Enough to make the data set where it is not in the cache.
  std::string folder = {};        ///< Of the driver's data set.
  std::string train_sha256 = {};  ///< What the driver trains on: another text is refused.
  std::string validation_sha256 = {};
  std::string subset_digest = {};  ///< The same of the pieces that may be drawn.
  int sequence = 0;                ///< Tokens per sequence.
  std::int64_t rows_per_microbatch = 0;
  std::uint64_t seed = 0;

  static constexpr auto fields =
      weft::fields(&TextBatchesRecipe::data, &TextBatchesRecipe::folder,
                   &TextBatchesRecipe::train_sha256, &TextBatchesRecipe::validation_sha256,
                   &TextBatchesRecipe::subset_digest, &TextBatchesRecipe::sequence,
                   &TextBatchesRecipe::rows_per_microbatch, &TextBatchesRecipe::seed);
  friend bool operator==(const TextBatchesRecipe&, const TextBatchesRecipe&) = default;
};

/// Opens the driver's data set by its folder or, where that is not in the cache, makes it of the
/// same text. Throws Error(kIncompatible) if the text here is another one.
TextDataset open_dataset(const TextBatchesRecipe& recipe);

/// The inputs "tokens" and "targets" of a language model, i32[rows, sequence], read straight from
/// the mapped token files. Owner's thread only.
class TextBatches final : public mesh::BatchSource {
 public:
  /// Opens the driver's folder or, on another host, makes the data set from the same text.
  /// Throws Error(kIncompatible) if the text here is another one.
  explicit TextBatches(const TextBatchesRecipe& recipe);

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override;

 private:
  const TextBatchesRecipe recipe_;
  const TextDataset dataset_;
  const TokenWindows train_;
  const TokenWindows validation_;
  std::vector<std::int32_t> row_;
};

}  // namespace weft::apps
