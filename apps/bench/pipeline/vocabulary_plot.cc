#include "apps/bench/pipeline/vocabulary_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

constexpr double kEdge = 64, kBetween = 70, kHead = 34, kPanelWidth = 300, kPanelHeight = 260;
constexpr double kLegendRow = 17, kVocabularyLegendColumn = 210;

std::vector<std::string> arms_of(const std::vector<WorkloadResult>& results) {
  std::vector<std::string> names;
  for (const WorkloadResult& result : results) {
    for (const ArmResult& arm : result.arms) {
      const std::string name = schedule_of(arm.arm);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

/// Value of an arm; 0: none.
using ValueOf = std::function<double(const WorkloadResult&, const ArmResult&)>;

struct Panel {
  double left = 0;
  double top = 0;
  std::string title;
  ValueOf line;
  ValueOf point;
};

void draw_panel(Svg& svg, const Panel& panel, const std::vector<WorkloadResult>& results,
                const std::vector<std::string>& names) {
  double high = 0;
  for (const WorkloadResult& result : results)
    for (const ArmResult& arm : result.arms)
      high = std::max({high, panel.line(result, arm), panel.point(result, arm)});
  high = high > 0 ? 1.08 * high : 1;
  draw_y_axis(svg, {panel.left, panel.top, kPanelWidth, kPanelHeight}, 0, high, panel.title);
  const auto x_of = [&](std::size_t place) {
    return panel.left +
           (static_cast<double>(place) + 0.5) * kPanelWidth / static_cast<double>(results.size());
  };
  const auto y_of = [&](double value) { return panel.top + (high - value) / high * kPanelHeight; };
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::pair<double, double>> line;
    for (std::size_t w = 0; w < results.size(); ++w) {
      for (const ArmResult& arm : results[w].arms) {
        if (schedule_of(arm.arm) != names[i]) continue;
        if (const double value = panel.line(results[w], arm); value > 0)
          line.emplace_back(x_of(w), y_of(value));
        if (const double value = panel.point(results[w], arm); value > 0)
          svg.circle(x_of(w), y_of(value), 3.4, fmt::format("fill='{}'", colour_of_series(i)));
      }
    }
    svg.polyline(line, fmt::format("stroke='{}' stroke-width='1.4'", colour_of_series(i)));
  }
  for (std::size_t w = 0; w < results.size(); ++w)
    svg.text(x_of(w), panel.top + kPanelHeight + 16,
             fmt::format("{}k", results[w].vocabulary / 1024), Svg::Anchor::kMiddle,
             "font-size='11'");
  svg.text(panel.left + kPanelWidth / 2, panel.top + kPanelHeight + 34, "vocabulary",
           Svg::Anchor::kMiddle, "font-size='12'");
}

}  // namespace

Svg draw_vocabularies(const std::vector<WorkloadResult>& all, const std::string& title) {
  std::vector<WorkloadResult> results = all;
  std::ranges::sort(results, {}, &WorkloadResult::vocabulary);
  const std::vector<std::string> names = arms_of(results);
  const std::size_t columns = 3, rows = (names.size() + columns - 1) / columns;
  const double top = kHead + kLegendRow * static_cast<double>(rows) + 20;
  Svg svg(kEdge + 2 * kPanelWidth + kBetween + 20, top + kPanelHeight + 46);
  svg.text(kEdge, 20, title, Svg::Anchor::kStart, "font-size='14' font-weight='bold'");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t column = i / rows, row = i % rows;
    const double x = kEdge + kVocabularyLegendColumn * static_cast<double>(column);
    const double y = kHead + kLegendRow * static_cast<double>(row);
    svg.rect(x, y, 11, 11, fmt::format("fill='{}'", colour_of_series(i)));
    svg.text(x + 16, y + 10, names[i], Svg::Anchor::kStart, "font-size='12'");
  }
  const auto rate = [](const WorkloadResult& result, double seconds) {
    return seconds > 0 ? result.rows_per_step / (seconds * result.time_scale) : 0;
  };
  draw_panel(svg,
             {kEdge, top, "sequences a second; lines simulated, points measured",
              [&](const WorkloadResult& result, const ArmResult& arm) {
                return rate(result, arm.predicted_seconds);
              },
              [&](const WorkloadResult& result, const ArmResult& arm) {
                return arm.measured() ? rate(result, arm.median()) : 0;
              }},
             results, names);
  const ValueOf memory = [](const WorkloadResult& result, const ArmResult& arm) {
    return static_cast<double>(arm.peak_bytes) * result.byte_scale / (1 << 30);
  };
  draw_panel(svg,
             {kEdge + kPanelWidth + kBetween, top, "peak memory of a device, GiB", memory, memory},
             results, names);
  return svg;
}

}  // namespace weft::apps
