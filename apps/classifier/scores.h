#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/data/picture.h"
#include "apps/images/image_dataset.h"
#include "apps/models/classifier_graph.h"
#include "apps/run_files/safetensors.h"
#include "core/device/device.h"

namespace weft::apps {

/// How good a classifier is on pictures. A value.
struct Scores {
  double loss = 0;      ///< Nats, mean over the pictures.
  double accuracy = 0;  ///< The share whose likeliest label is theirs; of equal ones the first.
  std::vector<std::uint16_t> said;                   ///< By row: the likeliest label.
  std::vector<double> sure;                          ///< By row: its probability.
  std::vector<std::vector<std::int64_t>> confusion;  ///< [true label][said].
};

/// Of a classifier of this shape with these parameters, on one device; nothing without pictures.
/// Throws Error(kIncompatible) if the parameters are not those of the shape, Error(kCancelled) if
/// asked to stop.
std::optional<Scores> score(Device& device, const ClassifierShape& shape, const PixelScale& scale,
                            const std::vector<TensorView>& parameters, const LabelledImages& images,
                            const std::stop_token& stop = {});

/// A line per true label: its share of right answers, and what is said instead most often.
std::string confusion_table(const std::vector<std::string>& classes, const Scores& scores);

/// A row for each label, under its name: pictures that have it and were called something else,
/// which stands below each. Those come first of whose wrong label the classifier is surest.
Picture wrong_pictures(const LabelledImages& images, const Scores& scores,
                       const std::vector<std::string>& classes);

}  // namespace weft::apps
