#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "apps/classification/batched_classifier.h"
#include "apps/classification/labelled_images.h"
#include "apps/models/classifier_graph.h"
#include "core/device/device.h"

namespace weft::apps {

/// Training options of a coarse model. A value.
struct CoarseOptions {
  std::vector<std::int64_t> hidden = {64};  ///< Layer widths. The last one is the features' width.
  double fraction = 0.1;                    ///< Share of the rows to train on, drawn at random.
  std::uint64_t seed = 1;                   ///< Seed of the drawn rows, batches and parameters.
  std::int64_t steps = 4000;
  std::int64_t batch = 64;
  double learning_rate = 1e-3;  ///< Value at the first step. Decays linearly to 0.
  double weight_decay = 0.01;
};

/// Small classifier trained on few rows. It estimates how useful each row is for training. A value.
struct CoarseModel {
  ClassifierShape shape = {};
  PixelNormalization scale = {};
  std::vector<std::vector<float>> parameters = {};  ///< Values, in the order of the shape's graph.

  /// Creates the model on a device, ready to compute. Borrows the device.
  std::unique_ptr<BatchedClassifier> create_on(Device& device) const;
};

/// Trains an MLP on one device with AdamW. The same pictures, options and kind of device give the
/// same bits. Throws Error(kInvalidArgument) if there are no pictures, Error(kCancelled) if `stop`
/// is requested.
CoarseModel train_coarse_model(Device& device, const LabelledImages& images, std::int64_t classes,
                               const CoarseOptions& options, const std::stop_token& stop = {});

/// Returns 1 - (p_best - p_second) of each row of a block, where p_best and p_second are the
/// probabilities of the two likeliest labels. 0 if the model is certain, 1 if two labels are
/// equally likely (margin sampling; arXiv 2402.16442, section 6).
std::vector<float> margin_utilities(const ImageBlock& block);

/// Outputs of a coarse model for all rows, without the features.
struct CoarseOutputs {
  std::vector<float> utility;  ///< margin_utilities() of each row minus the minimum over all rows.
  std::size_t width = 0;       ///< Number of features per row.
};

/// Computes all rows on one device, block by block, and calls `visit` with each block in order.
/// Blocks carry the features: the activations of the last hidden layer. Blocks are the same for any
/// number of workers. So several workers get the same bits if each computes its own blocks and all
/// subtract one common minimum of margin_utilities(). Throws Error(kCancelled) if `stop` is
/// requested.
CoarseOutputs coarse_outputs(Device& device, const CoarseModel& model, const LabelledImages& images,
                             const std::function<void(const ImageBlock&)>& visit,
                             const std::stop_token& stop = {});

}  // namespace weft::apps
