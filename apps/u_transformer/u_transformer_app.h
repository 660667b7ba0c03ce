#pragma once

#include "apps/data/brain_data_config.h"
#include "apps/models/u_transformer_graph.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Trains a U-Transformer to label the brain regions in slices of a head. Reads `model:` and
/// `data:`.
class UTransformerApp final : public TrainingApp {
 public:
  std::string name() const override { return "u_transformer"; }
  ModelDescription describe_model(const ConfigNode& root, const BatchShape& batch,
                                  std::uint64_t seed) override;
  PreparedData prepare_data() override;
  std::unique_ptr<mesh::BatchSource> open_batches(
      std::span<const std::byte> batches) const override;

 private:
  UTransformerShape shape_;
  BrainDataConfig data_;
  std::uint64_t seed_ = 0;
};

}  // namespace weft::apps
