#include "apps/data/text_batches.h"

#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {

TextDataset open_dataset(const TextBatchesRecipe& recipe) {
  TextDataset dataset =
      std::filesystem::exists(std::filesystem::path(recipe.folder) / "dataset.json")
          ? TextDataset::open(recipe.folder)
          : TextDataset::prepare(recipe.data);
  if (dataset.train.sha256() != recipe.train_sha256 ||
      dataset.validation.sha256() != recipe.validation_sha256)
    throw_error(ErrorCode::kIncompatible,
                "the text '{}' on this host is not the one that the driver trains on (its tokens "
                "have SHA-256 {}..., the "
                "driver's {}...): "
                "put the same file, or the same package version, on all hosts",
                recipe.data.text, dataset.train.sha256().substr(0, 12),
                recipe.train_sha256.substr(0, 12));
  return dataset;
}

TextBatches::TextBatches(const TextBatchesRecipe& recipe)
    : recipe_(recipe),
      dataset_(open_dataset(recipe)),
      train_(dataset_.train, recipe.sequence, recipe.seed, recipe.data.subset),
      validation_(dataset_.validation, recipe.sequence, recipe.seed),
      row_(recipe.sequence) {
  if (train_.sampler() && train_.sampler()->subset_digest() != recipe.subset_digest)
    throw_error(ErrorCode::kIncompatible,
                "the chosen pieces in {} on this host are not the driver's: put the same folder on "
                "all hosts",
                recipe.data.subset.folder);
}

void TextBatches::read(std::string_view input, mesh::Split split, std::uint64_t step,
                       int microbatch, int microbatches, const Region& region,
                       std::span<std::byte> out) {
  WEFT_CHECK(input == "tokens" || input == "targets", "input {}", input);
  WEFT_CHECK(region.rank() == 2 && out.size() == static_cast<std::size_t>(region.num_elements()) *
                                                     sizeof(std::int32_t),
             "{} bytes", out.size());
  const std::size_t shift = input == "targets" ? 1 : 0;
  const TokenFile& file = split == mesh::Split::kTrain ? dataset_.train : dataset_.validation;
  const std::size_t columns = region[1].size();
  std::byte* to = out.data();
  for (std::int64_t r = region[0].begin; r < region[0].end;
       ++r, to += columns * sizeof(std::int32_t)) {
    const std::int64_t row = microbatch * recipe_.rows_per_microbatch + r;
    const std::int64_t rows = microbatches * recipe_.rows_per_microbatch;
    const std::size_t offset =
        split == mesh::Split::kTrain
            ? train_.training_offset(step, row)
            : validation_.validation_offset(static_cast<std::int64_t>(step) * rows + row);
    file.read(offset + shift + region[1].begin, {row_.data(), columns});
    std::memcpy(to, row_.data(), columns * sizeof(std::int32_t));
  }
}

}  // namespace weft::apps
