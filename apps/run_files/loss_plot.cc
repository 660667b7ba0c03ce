#include "apps/run_files/loss_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::apps {
namespace {

constexpr double kLossWidth = 900;
constexpr double kLossHeight = 480;
constexpr double kLossLeft = 64, kLossTop = 48, kLossBottom = 52;

constexpr const char* kTrain = "#2f6fde";
constexpr const char* kValidation = "#d9480f";
constexpr const char* kBaseline = "#6e7781";

using Points = std::vector<std::pair<double, double>>;

/// Mean over about a thirtieth of the run around each step: narrower at the start, where losses
/// fall quickly, and one-sided at the end.
Points smoothed(const Points& points) {
  const std::size_t half = points.size() / 60;
  Points result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t reach = std::min(half, i);
    const std::size_t end = std::min(i + reach, points.size() - 1);
    double sum = 0;
    for (std::size_t k = i - reach; k <= end; ++k) sum += points[k].second;
    result.emplace_back(points[i].first, sum / static_cast<double>(end - (i - reach) + 1));
  }
  return result;
}

/// What stands beside the end of a line.
struct Label {
  double y;  ///< A loss; on the page, after it has been placed.
  std::string text;
  std::string colour;
};

/// Moves labels apart so that none covers another.
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

}  // namespace

Svg draw_losses(const std::vector<StepMetrics>& steps, const Baseline& baseline,
                const std::string& title) {
  Points train;
  Points validation;
  for (const StepMetrics& m : steps) {
    if (std::isfinite(m.loss)) train.emplace_back(static_cast<double>(m.step), m.loss);
    if (m.validation_loss && std::isfinite(*m.validation_loss))
      validation.emplace_back(static_cast<double>(m.step), *m.validation_loss);
  }
  double low = baseline.loss > 0 ? baseline.loss : train.empty() ? 0 : train[0].second;
  double high = low;
  for (const Points& points : {train, validation})
    for (const auto& [x, y] : points) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  const double margin = std::max(0.05, 0.06 * (high - low));
  low = std::max(0.0, low - margin);
  high += margin;
  const double last_step = train.empty() ? 1 : std::max(2.0, train.back().first);

  const Points average = smoothed(train);
  std::vector<Label> labels;
  if (baseline.loss > 0) {
    const std::string name = baseline.name.substr(baseline.name.starts_with("a ") ? 2 : 0);
    labels.push_back({baseline.loss, fmt::format("{} {:.3f}", name, baseline.loss), kBaseline});
  }
  if (!train.empty())
    labels.push_back(
        {average.back().second, fmt::format("training {:.3f}", average.back().second), kTrain});
  if (!validation.empty()) {
    labels.push_back({validation.back().second,
                      fmt::format("validation {:.3f}", validation.back().second), kValidation});
  }
  std::size_t longest = 0;
  for (const Label& label : labels) longest = std::max(longest, label.text.size());
  const double plot_end = kLossWidth - 24 - Svg::kBoldLetterWidth * static_cast<double>(longest);

  const auto x_of = [&](double step) {
    return kLossLeft + (step - 1) / (last_step - 1) * (plot_end - kLossLeft);
  };
  const auto y_of = [&](double loss) {
    return kLossTop + (high - loss) / (high - low) * (kLossHeight - kLossTop - kLossBottom);
  };
  const auto placed = [&](Points points) {
    for (auto& [x, y] : points) {
      x = x_of(x);
      y = y_of(y);
    }
    return points;
  };

  Svg svg(kLossWidth, kLossHeight);
  svg.text(kLossLeft, 28, title, Svg::Anchor::kStart, "font-size='16' font-weight='600'");
  const std::vector<double> losses = round_ticks(low, high, 6);
  for (double loss : losses) {
    svg.line(kLossLeft, y_of(loss), plot_end, y_of(loss), "stroke='#e6e8eb'");
    svg.text(kLossLeft - 8, y_of(loss) + 4,
             tick_label(loss, losses.size() > 1 ? losses[1] - losses[0] : 1), Svg::Anchor::kEnd,
             "fill='#57606a'");
  }
  for (double step : round_ticks(1, last_step, 8)) {
    if (step != std::floor(step) || step < 1) continue;
    svg.line(x_of(step), kLossHeight - kLossBottom, x_of(step), kLossHeight - kLossBottom + 5,
             "stroke='#8c959f'");
    svg.text(x_of(step), kLossHeight - kLossBottom + 19, fmt::format("{:.0f}", step),
             Svg::Anchor::kMiddle, "fill='#57606a'");
  }
  svg.line(kLossLeft, kLossHeight - kLossBottom, plot_end, kLossHeight - kLossBottom,
           "stroke='#8c959f'");
  svg.text((kLossLeft + plot_end) / 2, kLossHeight - 12, "step", Svg::Anchor::kMiddle,
           "fill='#57606a'");
  svg.text(0, 0, "loss (nats)", Svg::Anchor::kMiddle,
           fmt::format("fill='#57606a' transform='translate(16 {:.0f}) rotate(-90)'",
                       (kLossTop + kLossHeight - kLossBottom) / 2));

  if (baseline.loss > 0) {
    svg.line(kLossLeft, y_of(baseline.loss), plot_end, y_of(baseline.loss),
             fmt::format("stroke='{}' stroke-width='1.5' stroke-dasharray='6 4'", kBaseline));
  }
  if (!train.empty()) {
    svg.polyline(placed(train), fmt::format("stroke='{}' stroke-width='1' opacity='0.3'", kTrain));
    svg.polyline(placed(average),
                 fmt::format("stroke='{}' stroke-width='2' stroke-linejoin='round'", kTrain));
  }
  if (!validation.empty()) {
    svg.polyline(placed(validation), fmt::format("stroke='{}' stroke-width='2'", kValidation));
    for (const auto& [x, y] : placed(validation))
      svg.circle(x, y, 3.5, fmt::format("fill='white' stroke='{}' stroke-width='2'", kValidation));
  }
  for (Label& label : labels) label.y = y_of(label.y) + 4;
  spread(labels);
  for (const Label& label : labels)
    svg.text(plot_end + 12, label.y, label.text, Svg::Anchor::kStart,
             fmt::format("fill='{}' font-weight='600'", label.colour));
  return svg;
}

}  // namespace weft::apps
