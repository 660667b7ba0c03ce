#include "apps/run_files/loss_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

constexpr double kLossWidth = 900;
constexpr double kLossHeight = 480;
constexpr double kLossLeft = 64, kLossTop = 48, kLossBottom = 52;

constexpr const char* kTrain = "#2f6fde";
constexpr const char* kValidation = "#d9480f";
constexpr const char* kBaseline = "#6e7781";

using Points = std::vector<std::pair<double, double>>;

/// Averages each step over about a thirtieth of the run. The window is narrower at the start, where
/// losses fall quickly, and one-sided at the end.
Points smoothed(const Points& points) {
  const std::size_t half = points.size() / 60;
  Points result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t reach = std::min(half, i);
    const std::size_t end = std::min(i + reach, points.size() - 1);
    double sum = 0;
    for (std::size_t k = i - reach; k <= end; ++k) sum += points[k].second;
    result.emplace_back(points[i].first, sum / (end - (i - reach) + 1));
  }
  return result;
}

/// Returns the number of steps in the last average.
std::size_t last_of_average(const Points& average) { return average.size() / 60 + 1; }

/// Label at the end of a curve.
struct Label {
  double y;  ///< Loss; pixels after placement.
  std::string text;
  std::string colour;
};

/// Moves labels apart so that they do not overlap.
void spread(std::vector<Label>& labels) {
  std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + 16);
  double floor = kLossHeight - kLossBottom + 4;
  for (std::size_t i = labels.size(); i-- > 0;) {
    labels[i].y = std::min(labels[i].y, floor);
    floor = labels[i].y - 16;
  }
}

/// Finite losses of a run by step.
struct Curves {
  Points train, validation;
};

Curves curves_of(const std::vector<StepMetrics>& steps) {
  Curves curves;
  for (const StepMetrics& m : steps) {
    const double step = m.step;
    if (std::isfinite(m.loss)) curves.train.emplace_back(step, m.loss);
    if (m.validation_loss && std::isfinite(*m.validation_loss))
      curves.validation.emplace_back(step, *m.validation_loss);
  }
  return curves;
}

/// Returns labels with the names and last values of all curves.
std::vector<Label> labels_of(const Curves& curves, const Points& average,
                             const Baseline& baseline) {
  std::vector<Label> labels;
  if (baseline.loss > 0) {
    const std::string name = baseline.name.substr(baseline.name.starts_with("a ") ? 2 : 0);
    labels.push_back({baseline.loss, fmt::format("{} {:.3f}", name, baseline.loss), kBaseline});
  }
  if (!average.empty())
    labels.push_back({average.back().second,
                      fmt::format("training {:.3f}{}", average.back().second,
                                  last_of_average(average) > 1
                                      ? fmt::format(" (mean of {})", last_of_average(average))
                                      : ""),
                      kTrain});
  if (!curves.validation.empty()) {
    const double last = curves.validation.back().second;
    labels.push_back({last, fmt::format("validation {:.3f}", last), kValidation});
  }
  return labels;
}

/// Mapping of steps and losses to pixels.
struct Scale {
  double last_step = 1;
  double low = 0, high = 0;  ///< Losses at the bottom and the top of the plot.
  double right = 0;          ///< Right end of the plot, where labels begin.

  double x_of(double step) const {
    return kLossLeft + (step - 1) / (last_step - 1) * (right - kLossLeft);
  }
  double y_of(double loss) const {
    return kLossTop + (high - loss) / (high - low) * (kLossHeight - kLossTop - kLossBottom);
  }
  Points placed(Points points) const {
    for (auto& [x, y] : points) {
      x = x_of(x);
      y = y_of(y);
    }
    return points;
  }
};

Scale scale_of(const Curves& curves, const Baseline& baseline, const std::vector<Label>& labels) {
  Scale scale;
  scale.low = baseline.loss > 0 ? baseline.loss : curves.train.empty() ? 0 : curves.train[0].second;
  scale.high = scale.low;
  for (const Points& points : {curves.train, curves.validation})
    for (const auto& [x, y] : points) {
      scale.low = std::min(scale.low, y);
      scale.high = std::max(scale.high, y);
    }
  const double margin = std::max(0.05, 0.06 * (scale.high - scale.low));
  scale.low = std::max(0.0, scale.low - margin);
  scale.high += margin;
  scale.last_step = curves.train.empty() ? 1 : std::max(2.0, curves.train.back().first);
  std::size_t longest = 0;
  for (const Label& label : labels) longest = std::max(longest, label.text.size());
  scale.right = kLossWidth - 24 - Svg::kBoldLetterWidth * longest;
  return scale;
}

/// Draws grid, axes and tick labels.
void draw_axes(Svg& svg, const Scale& scale) {
  const std::vector<double> losses = round_ticks(scale.low, scale.high, 6);
  for (double loss : losses) {
    svg.line(kLossLeft, scale.y_of(loss), scale.right, scale.y_of(loss), "stroke='#e6e8eb'");
    svg.text(kLossLeft - 8, scale.y_of(loss) + 4,
             tick_label(loss, losses.size() > 1 ? losses[1] - losses[0] : 1), Svg::Anchor::kEnd,
             "fill='#57606a'");
  }
  for (double step : round_ticks(1, scale.last_step, 8)) {
    if (step != std::floor(step) || step < 1) continue;
    svg.line(scale.x_of(step), kLossHeight - kLossBottom, scale.x_of(step),
             kLossHeight - kLossBottom + 5, "stroke='#8c959f'");
    svg.text(scale.x_of(step), kLossHeight - kLossBottom + 19, fmt::format("{:.0f}", step),
             Svg::Anchor::kMiddle, "fill='#57606a'");
  }
  svg.line(kLossLeft, kLossHeight - kLossBottom, scale.right, kLossHeight - kLossBottom,
           "stroke='#8c959f'");
  svg.text((kLossLeft + scale.right) / 2, kLossHeight - 12, "step", Svg::Anchor::kMiddle,
           "fill='#57606a'");
  svg.text(0, 0, "loss (nats)", Svg::Anchor::kMiddle,
           fmt::format("fill='#57606a' transform='translate(16 {:.0f}) rotate(-90)'",
                       (kLossTop + kLossHeight - kLossBottom) / 2));
}

void draw_curves(Svg& svg, const Scale& scale, const Curves& curves, const Points& average,
                 const Baseline& baseline) {
  if (baseline.loss > 0) {
    svg.line(kLossLeft, scale.y_of(baseline.loss), scale.right, scale.y_of(baseline.loss),
             fmt::format("stroke='{}' stroke-width='1.5' stroke-dasharray='6 4'", kBaseline));
  }
  if (!curves.train.empty()) {
    svg.polyline(scale.placed(curves.train),
                 fmt::format("stroke='{}' stroke-width='1' opacity='0.3'", kTrain));
    svg.polyline(scale.placed(average),
                 fmt::format("stroke='{}' stroke-width='2' stroke-linejoin='round'", kTrain));
  }
  if (!curves.validation.empty()) {
    const Points points = scale.placed(curves.validation);
    svg.polyline(points, fmt::format("stroke='{}' stroke-width='2'", kValidation));
    for (const auto& [x, y] : points)
      svg.circle(x, y, 3.5, fmt::format("fill='white' stroke='{}' stroke-width='2'", kValidation));
  }
}

void draw_labels(Svg& svg, const Scale& scale, std::vector<Label> labels) {
  for (Label& label : labels) label.y = scale.y_of(label.y) + 4;
  spread(labels);
  for (const Label& label : labels)
    svg.text(scale.right + 12, label.y, label.text, Svg::Anchor::kStart,
             fmt::format("fill='{}' font-weight='600'", label.colour));
}

}  // namespace

Svg draw_losses(const std::vector<StepMetrics>& steps, const Baseline& baseline,
                const std::string& title) {
  const Curves curves = curves_of(steps);
  const Points average = smoothed(curves.train);
  const std::vector<Label> labels = labels_of(curves, average, baseline);
  const Scale scale = scale_of(curves, baseline, labels);
  Svg svg(kLossWidth, kLossHeight);
  svg.text(kLossLeft, 28, title, Svg::Anchor::kStart, "font-size='16' font-weight='600'");
  draw_axes(svg, scale);
  draw_curves(svg, scale, curves, average, baseline);
  draw_labels(svg, scale, labels);
  return svg;
}

}  // namespace weft::apps
