#include "apps/classifier/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>

#include "apps/classification/batched_classifier.h"
#include "apps/data/picture_text.h"
#include "apps/train/model_parameters.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kShownOfLabel = 16;
constexpr int kMargin = 4;
constexpr Colour kCaption{255, 255, 255}, kCalled{240, 160, 60};
constexpr int kLeastShownPixels = 56;  // smaller pictures are enlarged to about this size

Picture drawn(const LabelledImages& images, std::size_t row) {
  Picture picture(images.width, images.height);
  const auto values = images.image(row);
  for (int y = 0; y < images.height; ++y) {
    for (int x = 0; x < images.width; ++x) {
      const std::size_t at = (y * static_cast<std::size_t>(images.width) + x) * images.colours;
      const std::size_t last = images.colours - 1;
      picture.set(x, y, {values[at], values[at + last / 2], values[at + last]});
    }
  }
  return picture;
}

}  // namespace

std::optional<Scores> score(Device& device, const ClassifierShape& shape,
                            const PixelNormalization& scale,
                            const std::vector<TensorView>& parameters, const LabelledImages& images,
                            const std::stop_token& stop) {
  if (images.size() == 0) return std::nullopt;
  BatchedClassifier blocks(device, shape, scale);
  set_parameters(blocks.evaluation(), parameters);
  const std::size_t classes = shape.classes;
  Scores scores;
  scores.confusion.assign(classes, std::vector<std::int64_t>(classes));
  std::int64_t right = 0;
  for (std::size_t b = 0; b < BatchedClassifier::num_blocks(images); ++b) {
    if (stop.stop_requested())
      throw_error(ErrorCode::kCancelled, "interrupted after {} of {} pictures",
                  scores.predicted_labels.size(), images.size());
    const ImageBlock block = blocks.run(images, b);
    for (std::size_t i = 0; i < block.rows; ++i) {
      const std::uint16_t label = images.labels[block.first + i];
      const std::vector<double> distribution =
          probabilities(std::span(block.logits).subspan(i * classes, classes));
      const auto likeliest = std::ranges::max_element(distribution);
      const auto predicted = static_cast<std::uint16_t>(likeliest - distribution.begin());
      scores.loss -= std::log(std::max(distribution[label], 1e-300));
      scores.predicted_labels.push_back(predicted);
      scores.predicted_probabilities.push_back(*likeliest);
      ++scores.confusion[label][predicted];
      right += predicted == label ? 1 : 0;
    }
  }
  scores.loss /= images.size();
  scores.accuracy = static_cast<double>(right) / images.size();
  return scores;
}

std::string confusion_table(const std::vector<std::string>& classes, const Scores& scores) {
  constexpr std::size_t kNamed = 3;
  std::string text = fmt::format("{:<16}{:>10}  {}\n", "true label", "right", "called instead");
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::vector<std::int64_t>& counts = scores.confusion[label];
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (all == 0) continue;
    std::vector<std::size_t> others(classes.size());
    std::iota(others.begin(), others.end(), std::size_t{0});
    std::erase_if(others, [&](std::size_t other) { return other == label || counts[other] == 0; });
    std::ranges::stable_sort(others, std::greater(), [&](std::size_t o) { return counts[o]; });
    others.resize(std::min(others.size(), kNamed));
    std::string instead;
    for (const std::size_t other : others)
      instead += fmt::format("{}{} {:.1f} %", instead.empty() ? "" : ", ", classes[other],
                             100 * counts[other] / all);
    text +=
        fmt::format("{:<16}{:>8.1f} %  {}\n", classes[label], 100 * counts[label] / all, instead);
  }
  return text;
}

Picture misclassified_pictures(const LabelledImages& images, const Scores& scores,
                               const std::vector<std::string>& classes) {
  const int factor = std::max(1, kLeastShownPixels / std::max(images.width, images.height));
  const int across = images.width * factor + kMargin;
  // Height of a label's strip: its name, the pictures, and the predicted label below each.
  const int down = images.height * factor + kMargin + 2 * kLineHeight;
  Picture all(static_cast<int>(kShownOfLabel) * across, static_cast<int>(classes.size()) * down);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < images.size(); ++row) {
      if (images.labels[row] == label && scores.predicted_labels[row] != label) rows.push_back(row);
    }
    std::ranges::stable_sort(rows, std::greater(),
                             [&](std::size_t r) { return scores.predicted_probabilities[r]; });
    rows.resize(std::min(rows.size(), kShownOfLabel));
    const int top = static_cast<int>(label) * down, pictures = top + kLineHeight;
    draw_text(all, 0, top, classes[label] + (rows.empty() ? ": no mistake" : ", but was called"),
              kCaption);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int left = static_cast<int>(i) * across;
      all.paste(drawn(images, rows[i]).enlarged(factor), left, pictures);
      draw_text(all, left, pictures + images.height * factor + 1,
                text_within(classes[scores.predicted_labels[rows[i]]], across), kCalled);
    }
  }
  return all;
}

}  // namespace weft::apps
