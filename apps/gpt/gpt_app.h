#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/text_data_config.h"
#include "apps/data/text_dataset.h"
#include "apps/data/tokenizer.h"
#include "apps/gpt/gpt_config.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Trains a GPT on text. Reads `model:`, `data:` and `sample:`.
class GptApp final : public TrainingApp {
 public:
  std::string name() const override { return "gpt"; }
  ModelDescription describe_model(const ConfigNode& root, const BatchShape& batch,
                                  std::uint64_t seed) override;
  PreparedData prepare_data() override;
  /// Opens the cached tokens. The text itself may have changed or been deleted.
  PreparedData prepare_after_restart(std::span<const std::byte> restart_data) override;
  std::unique_ptr<mesh::BatchSource> open_batches(
      std::span<const std::byte> batches) const override;

 private:
  /// Returns the tokens of `data.test`, or none if it is not set.
  std::vector<std::int32_t> test_tokens(const Tokenizer& tokenizer) const;
  /// Describes the dataset to the training loop. `test` holds the tokens of `data.test`.
  PreparedData describe(TextDataset dataset, std::vector<std::int32_t> test) const;

  GptShape shape_;
  TextDataConfig data_;
  SampleConfig sample_;
  std::uint64_t seed_ = 0;
};

}  // namespace weft::apps
