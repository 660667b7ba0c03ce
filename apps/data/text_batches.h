#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/data/text_data_config.h"
#include "apps/data/text_dataset.h"
#include "apps/data/token_windows.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// Message from the driver that tells a device process how to read its share of a text.
struct TextBatchesRecipe {
  TextDataConfig data;            ///< Configuration to prepare the data set from, if it is not in
                                  ///< the cache.
  std::string folder = {};        ///< Folder of the driver's data set.
  std::string train_sha256 = {};  ///< Driver's training tokens. A device with others throws.
  std::string validation_sha256 = {};
  std::string subset_digest = {};  ///< Driver's subset of windows. Compared likewise.
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

/// Opens the driver's data set by its folder. Prepares it from the same text if the folder does not
/// exist on this host. Throws Error(kIncompatible) if the text here differs from the driver's.
TextDataset open_dataset(const TextBatchesRecipe& recipe);

/// Batch source with the inputs "tokens" and "targets" of a language model, i32[rows, sequence],
/// read from the mapped token files. Owner's thread only.
class TextBatches final : public mesh::BatchSource {
 public:
  /// Opens the data set as open_dataset() does. Throws Error(kIncompatible) if the text or the
  /// subset here differs from the driver's.
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
