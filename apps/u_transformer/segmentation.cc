#include "apps/u_transformer/segmentation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/data/picture_text.h"
#include "apps/train/model_parameters.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {
namespace {

constexpr int kEnlarged = 3;
constexpr int kMargin = 6;
constexpr int kLegendLines = 5;                       // titles and colour key
constexpr float kDarkest = -1.0f, kBrightest = 2.5f;  // standard deviations from the mean
                                                      // brightness
constexpr double kColourShare = 0.6;

/// Colour of each region. The first two, outside and unnamed brain, have none.
constexpr std::array<Colour, kBrainRegions.size()> kColours{{{0, 0, 0},
                                                             {0, 0, 0},
                                                             {214, 69, 65},
                                                             {245, 171, 53},
                                                             {155, 89, 182},
                                                             {63, 195, 128},
                                                             {65, 131, 215},
                                                             {249, 105, 190},
                                                             {247, 220, 80},
                                                             {54, 215, 225}}};

std::uint8_t grey(float brightness) {
  const float share = std::clamp((brightness - kDarkest) / (kBrightest - kDarkest), 0.0f, 1.0f);
  return static_cast<std::uint8_t>(std::lround(255 * share));
}

Picture coloured(const BrainSlice& slice, const Segmentation& regions, int height, int width) {
  Picture picture(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto at = y * static_cast<std::size_t>(width) + x;
      const std::uint8_t level = grey(slice.pixels[at]);
      Colour colour{level, level, level};
      if (regions[at] >= 2) {
        const Colour of = kColours[regions[at]];
        const auto mixed = [&](std::uint8_t part) {
          return static_cast<std::uint8_t>(
              std::lround(kColourShare * part + (1 - kColourShare) * level));
        };
        colour = {mixed(of.red), mixed(of.green), mixed(of.blue)};
      }
      picture.set(x, y, colour);
    }
  }
  return picture;
}

}  // namespace

std::vector<Segmentation> segment(Device& device, const UTransformerShape& shape,
                                  const std::vector<TensorView>& parameters,
                                  const std::vector<BrainSlice>& slices,
                                  const std::stop_token& stop) {
  UTransformerShape one = shape;
  one.batch = 1;
  one.precision = DType::kF32;  // the optimizer's f32 values, not their rounded copies
  const UTransformerGraph model = u_transformer_graph(one, 1.0);
  Evaluation evaluation(device, model.graph, {model.logits});
  set_parameters(evaluation, parameters);
  std::vector<Segmentation> result;
  for (const BrainSlice& slice : slices) {
    if (stop.stop_requested())
      throw_error(ErrorCode::kCancelled, "interrupted after {} of {} slices", result.size(),
                  slices.size());
    evaluation.write(model.pixels, slice.pixels);
    evaluation.run();
    const std::vector<float> all_logits = evaluation.read<float>(model.logits);
    const std::span<const float> logits = all_logits;
    const std::size_t classes = shape.classes;
    Segmentation& regions = result.emplace_back();
    for (std::size_t pixel = 0; pixel < slice.pixels.size(); ++pixel) {
      const auto row = logits.subspan(pixel * classes, classes);
      regions.push_back(static_cast<std::uint8_t>(std::ranges::max_element(row) - row.begin()));
    }
  }
  return result;
}

void DiceScore::add(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second) {
  WEFT_CHECK(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    ++first_[first[i]];
    ++second_[second[i]];
    if (first[i] == second[i]) ++both_[first[i]];
  }
}

std::optional<double> DiceScore::of(std::size_t region) const {
  const std::int64_t all = first_[region] + second_[region];
  if (all == 0) return std::nullopt;
  return 2.0 * both_[region] / all;
}

double DiceScore::mean(std::size_t first_region) const {
  double sum = 0, count = 0;
  for (std::size_t region = first_region; region < both_.size(); ++region) {
    if (const auto dice = of(region)) {
      sum += *dice;
      ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

Picture side_by_side(const BrainSlice& slice, const Segmentation& prediction, int height,
                     int width) {
  const Segmentation none(prediction.size(), 0);
  const int bottom = height * kEnlarged;
  Picture all((3 * width + 2 * kMargin) * kEnlarged, bottom + kLegendLines * kLineHeight + 2);
  const Segmentation* columns[] = {&none, &slice.regions, &prediction};
  const char* const titles[] = {"slice", "truth", "model"};
  for (int i = 0; i < 3; ++i) {
    const int left = i * (width + kMargin) * kEnlarged;
    all.paste(coloured(slice, *columns[i], height, width).enlarged(kEnlarged), left, 0);
    draw_text(all, left, bottom + 2, titles[i], {255, 255, 255});
  }
  // Draws the colour key. A region name that does not fit on a line starts the next one.
  int x = 0, y = bottom + 2 + kLineHeight;
  for (std::size_t region = 2; region < kBrainRegions.size(); ++region) {
    const int wide = static_cast<int>(kBrainRegions[region].size() + 2) * kLetterWidth;
    if (x > 0 && x + wide > all.width()) {
      x = 0;
      y += kLineHeight;
    }
    draw_text(all, x, y, kBrainRegions[region], kColours[region]);
    x += wide;
  }
  return all;
}

}  // namespace weft::apps
