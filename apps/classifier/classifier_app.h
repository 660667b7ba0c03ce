#pragma once

#include "apps/classification/image_data_config.h"
#include "apps/models/classifier_graph.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Training app for an image classifier. Reads `model:` and `data:`.
class ClassifierApp final : public TrainingApp {
 public:
  std::string name() const override { return "classifier"; }
  ModelDescription describe_model(const ConfigNode& root, const BatchShape& batch,
                                  std::uint64_t seed) override;
  PreparedData prepare_data() override;
  std::unique_ptr<mesh::BatchSource> open_batches(
      std::span<const std::byte> batches) const override;

 private:
  ClassifierShape shape_;
  ImageDataConfig data_ = default_image_data();
  std::uint64_t seed_ = 0;
};

}  // namespace weft::apps
