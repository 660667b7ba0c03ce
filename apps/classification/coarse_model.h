#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "apps/classification/block_evaluation.h"
#include "apps/images/labelled_images.h"
#include "apps/models/classifier_graph.h"
#include "core/device/device.h"

namespace weft::apps {

/// How a coarse model is made. A value.
struct CoarseOptions {
  std::vector<std::int64_t> hidden = {64};  ///< The last one is the width of the features.
  double fraction = 0.1;                    ///< Of the rows that it is trained on, drawn by chance.
  std::uint64_t seed = 1;                   ///< Of these rows, the batches and the parameters.
  std::int64_t steps = 4000;
  std::int64_t batch = 64;
  double learning_rate = 1e-3;  ///< Of the first step; falls to 0 in a straight line.
  double weight_decay = 0.01;
};

/// A small classifier, trained on few rows, that says of every row how much it may teach. A value.
struct CoarseModel {
  ClassifierShape shape = {};
  PixelScale scale = {};
  std::vector<std::vector<float>> parameters = {};  ///< In the order of the shape's graph.

  /// Makes it ready to compute. Borrows the device.
  std::unique_ptr<BlockEvaluation> on(Device& device) const;
};

/// Trains an MLP on one device by AdamW: the same bits from the same pictures and options, on the
/// same kind of device. Throws Error(kInvalidArgument) without pictures, Error(kCancelled) if asked
/// to stop.
CoarseModel train_coarse_model(Device& device, const LabelledImages& images, std::int64_t classes,
                               const CoarseOptions& options, const std::stop_token& stop = {});

/// 1 - (p_best - p_second) of each row of a block, from the probabilities of the likeliest label
/// and the next one: 0 where the model is sure, 1 where it cannot tell two labels apart (margin
/// sampling; arXiv 2402.16442, section 6).
std::vector<float> margin_utilities(const ImageBlock& block);

/// What a coarse model says of all rows, but for their features.
struct CoarseOutputs {
  std::vector<float> utility;  ///< By row: of the margin, less the least of all rows.
  std::size_t width = 0;       ///< Of the features.
};

/// Block by block, on one device. `visit` is given each block, for its features (what the last
/// hidden layer gives), in order. Rows are computed in the same fixed blocks whoever computes them,
/// so that several workers, each with blocks of its own and one minimum taken over all of their
/// margin_utilities(), get the same bits. Throws Error(kCancelled) if asked to stop.
CoarseOutputs coarse_outputs(Device& device, const CoarseModel& model, const LabelledImages& images,
                             const std::function<void(const ImageBlock&)>& visit,
                             const std::stop_token& stop = {});

}  // namespace weft::apps
