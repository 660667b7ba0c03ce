#include "apps/classification/coarse_model.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

#include "apps/data/row_sampler.h"
#include "core/autodiff/differentiate.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/evaluate/one_device_trainer.h"

namespace weft::apps {
namespace {

constexpr std::int64_t kStepsPerStopCheck = 64;  // between checks of the stop token

void stop_if_asked(const std::stop_token& stop) {
  if (stop.stop_requested()) throw_error(ErrorCode::kCancelled, "the coarse model was interrupted");
}

}  // namespace

std::unique_ptr<BatchedClassifier> CoarseModel::create_on(Device& device) const {
  auto blocks = std::make_unique<BatchedClassifier>(device, shape, scale);
  const auto& list = blocks->evaluation().graph().parameters();
  WEFT_CHECK(list.size() == parameters.size(), "{} parameters of {}", parameters.size(),
             list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    blocks->evaluation().set_parameter(list[i].value, parameters[i]);
  return blocks;
}

CoarseModel train_coarse_model(Device& device, const LabelledImages& images, std::int64_t classes,
                               const CoarseOptions& options, const std::stop_token& stop) {
  if (images.size() == 0)
    throw_error(ErrorCode::kInvalidArgument, "a coarse model cannot be trained without pictures");
  CoarseModel coarse{.shape = {.height = images.height,
                               .width = images.width,
                               .colours = images.colours,
                               .hidden = options.hidden,
                               .classes = classes,
                               .batch = options.batch},
                     .scale = PixelNormalization::of(images)};
  const ClassifierGraph model = classifier_graph(coarse.shape, 1.0 / options.batch);
  OneDeviceTrainer trainer(device, differentiate(model.graph, model.loss), options.seed);
  const RowSampler sampler({.random_fraction = options.fraction, .seed = options.seed},
                           images.size(), "", "", options.seed ^ fnv1a("coarse", 6));
  const std::size_t values = images.values_per_image();
  std::vector<float> pixels(options.batch * values);
  std::vector<std::int32_t> targets(options.batch);
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    if (step % kStepsPerStopCheck == 0) stop_if_asked(stop);
    for (std::int64_t b = 0; b < options.batch; ++b) {
      const std::size_t row = sampler.draw(step, b);
      std::ranges::transform(images.image(row), pixels.begin() + b * values, coarse.scale);
      targets[b] = images.labels[row];
    }
    const double left = 1 - (step - 1) / static_cast<double>(options.steps);
    trainer.step(
        1,
        [&](int, Evaluation& evaluation) {
          evaluation.write(model.pixels, pixels);
          evaluation.write(model.targets, targets);
        },
        {.learning_rate = options.learning_rate * left, .weight_decay = options.weight_decay}, 1.0);
  }
  for (const Parameter& parameter : trainer.evaluation().graph().parameters())
    coarse.parameters.push_back(trainer.evaluation().read<float>(parameter.value));
  return coarse;
}

std::vector<float> margin_utilities(const ImageBlock& block) {
  const std::size_t classes = block.logits.size() / block.rows;
  std::vector<float> utilities;
  for (std::size_t i = 0; i < block.rows; ++i) {
    std::vector<double> sure = probabilities(std::span(block.logits).subspan(i * classes, classes));
    std::ranges::partial_sort(sure, sure.begin() + 2, std::greater());
    utilities.push_back(static_cast<float>(1 - (sure[0] - sure[1])));
  }
  return utilities;
}

CoarseOutputs coarse_outputs(Device& device, const CoarseModel& model, const LabelledImages& images,
                             const std::function<void(const ImageBlock&)>& visit,
                             const std::stop_token& stop) {
  const auto blocks = model.create_on(device);
  CoarseOutputs outputs{.utility = {},
                        .width = static_cast<std::size_t>(model.shape.hidden.back())};
  for (std::size_t b = 0; b < BatchedClassifier::num_blocks(images); ++b) {
    stop_if_asked(stop);
    const ImageBlock block = blocks->run(images, b);
    std::ranges::copy(margin_utilities(block), std::back_inserter(outputs.utility));
    visit(block);
  }
  if (outputs.utility.empty()) return outputs;
  const float least = *std::ranges::min_element(outputs.utility);
  for (float& utility : outputs.utility) utility -= least;
  return outputs;
}

}  // namespace weft::apps
