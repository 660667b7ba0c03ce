#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/classification/image_dataset.h"
#include "apps/data/picture.h"
#include "apps/models/classifier_graph.h"
#include "apps/run_files/safetensors.h"
#include "core/device/device.h"

namespace weft::apps {

/// Quality of a classifier on a set of pictures. A value.
struct Scores {
  double loss = 0;      ///< Nats, mean over the pictures.
  double accuracy = 0;  ///< Share of pictures whose likeliest label (the first among equals) is
                        ///< true.
  std::vector<std::uint16_t> predicted_labels;       ///< Likeliest label of each row.
  std::vector<double> predicted_probabilities;       ///< Probability of that label.
  std::vector<std::vector<std::int64_t>> confusion;  ///< [true label][predicted label].
};

/// Evaluates a classifier of this shape with these parameters on one device. Returns null if there
/// are no pictures. Throws Error(kIncompatible) if the parameters do not fit the shape,
/// Error(kCancelled) if `stop` is requested.
std::optional<Scores> score(Device& device, const ClassifierShape& shape,
                            const PixelNormalization& scale,
                            const std::vector<TensorView>& parameters, const LabelledImages& images,
                            const std::stop_token& stop = {});

/// Returns a table with a line per true label: its accuracy and its most frequent wrong labels.
std::string confusion_table(const std::vector<std::string>& classes, const Scores& scores);

/// Draws one row of misclassified pictures per true label, with the predicted label below each.
/// Pictures with the most probable wrong label come first.
Picture misclassified_pictures(const LabelledImages& images, const Scores& scores,
                               const std::vector<std::string>& classes);

}  // namespace weft::apps
