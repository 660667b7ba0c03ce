#include "apps/classification/batched_classifier.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace weft::apps {
namespace {

ClassifierGraph graph_of(ClassifierShape shape) {
  shape.batch = BatchedClassifier::kRows;
  shape.precision = DType::kF32;  // parameters as the optimizer has them, without rounding
  return classifier_graph(shape, 1.0);
}

}  // namespace

BatchedClassifier::BatchedClassifier(Device& device, const ClassifierShape& shape,
                                     const PixelNormalization& scale)
    : classes_(shape.classes),
      features_(shape.hidden.back()),
      model_(graph_of(shape)),
      evaluation_(device, model_.graph, {model_.features, model_.logits}),
      pixels_(kRows * shape.height * shape.width * shape.colours) {
  for (int byte = 0; byte < 256; ++byte) scaled_[byte] = scale(byte);
}

ImageBlock BatchedClassifier::run(const LabelledImages& images, std::size_t block) {
  const std::size_t values = images.values_per_image(), first = block * kRows;
  WEFT_CHECK(values * kRows == pixels_.size() && first < images.size(), "block {} of {} pictures",
             block, images.size());
  const std::size_t rows = std::min(kRows, images.size() - first);
  for (std::size_t i = 0; i < rows * values; ++i)
    pixels_[i] = scaled_[images.values[first * values + i]];
  std::fill(pixels_.begin() + rows * values, pixels_.end(), 0.0f);
  evaluation_.write(model_.pixels, pixels_);
  evaluation_.run();
  return {.first = first,
          .rows = rows,
          .features = evaluation_.read_part<float>(model_.features, 0, rows * features_),
          .logits = evaluation_.read_part<float>(model_.logits, 0, rows * classes_)};
}

std::vector<double> probabilities(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> result;
  double sum = 0;
  for (const float logit : logits) sum += result.emplace_back(std::exp(logit - largest));
  for (double& probability : result) probability /= sum;
  return result;
}

}  // namespace weft::apps
