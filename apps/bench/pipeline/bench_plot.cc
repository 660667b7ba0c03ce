#include "apps/bench/pipeline/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

constexpr double kLeft = 64, kRight = 20, kTop = 34, kPlotHeight = 280;
constexpr double kBar = 13, kGroupGap = 34, kLegendLine = 17, kLegendColumn = 230;

/// Returns the distinct names, in the order of their first appearance.
std::vector<std::string> legend_of(const std::vector<WorkloadResult>& results,
                                   std::string (*name)(const Arm&)) {
  std::vector<std::string> names;
  for (const WorkloadResult& result : results) {
    for (const ArmResult& arm : result.arms) {
      if (arm.arm.is_signal()) continue;
      if (std::find(names.begin(), names.end(), name(arm.arm)) == names.end())
        names.push_back(name(arm.arm));
    }
  }
  return names;
}

double legend_height(std::size_t names) {
  const std::size_t rows = (names + 1) / 2;
  return kLegendLine * rows;
}

/// Draws two columns of coloured squares with names.
void draw_legend(Svg& svg, double top, const std::vector<std::string>& names) {
  const std::size_t rows = (names.size() + 1) / 2;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double x = i < rows ? kLeft : kLeft + kLegendColumn, y = top + kLegendLine * (i % rows);
    svg.rect(x, y, 11, 11, fmt::format("fill='{}'", colour_of_series(i)));
    svg.text(x + 16, y + 10, names[i], Svg::Anchor::kStart, "font-size='12'");
  }
}

/// Returns the results with a transfer ratio and a signals-only arm, ascending by ratio.
std::vector<WorkloadResult> by_transfer_ratio(const std::vector<WorkloadResult>& all) {
  std::vector<WorkloadResult> results;
  for (const WorkloadResult& result : all) {
    if (result.transfer_ratio && result.signal() != nullptr) results.push_back(result);
  }
  std::sort(results.begin(), results.end(), [](const WorkloadResult& a, const WorkloadResult& b) {
    return *a.transfer_ratio < *b.transfer_ratio;
  });
  return results;
}

bool uses_weft(const ArmResult& arm) {
  return arm.arm.strategy == transfer::ReshardAlgorithm::kWeft;
}

}  // namespace

Svg draw_speeds(const std::vector<WorkloadResult>& results, const std::string& title) {
  const std::vector<std::string> names = legend_of(results, to_string);
  const auto position = [&](const Arm& arm) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), to_string(arm)) -
                                    names.begin());
  };
  const double group = kBar * names.size() + kGroupGap;
  const double width = std::max(440.0, group * results.size());
  const double top = kTop + legend_height(names.size()) + 14;
  double high = 1;
  for (const WorkloadResult& result : results) {
    if (result.baseline() == nullptr) continue;
    if (result.reference_seconds() > 0)
      high = std::max(high, result.baseline()->median() / result.reference_seconds());
    for (const ArmResult& arm : result.arms)
      high = std::max(high, result.baseline()->median() / arm.median());
  }
  high *= 1.06;
  Svg svg(kLeft + width + kRight, top + kPlotHeight + 40);
  svg.text(kLeft, 20, title, Svg::Anchor::kStart, "font-size='14' font-weight='bold'");
  draw_legend(svg, kTop, names);
  const PlotRectangle area{kLeft, top, width, kPlotHeight};
  draw_y_axis(svg, area, 0, high, "speed against the first bar");
  const auto y_of = [&](double speed) { return area.y_of(speed, 0, high); };
  for (std::size_t w = 0; w < results.size(); ++w) {
    const WorkloadResult& result = results[w];
    const double left = kLeft + group * w + kGroupGap / 2;
    for (const ArmResult& arm : result.arms) {
      if (arm.arm.is_signal()) continue;
      const double speed = result.baseline()->median() / arm.median();
      svg.rect(left + kBar * position(arm.arm), y_of(speed), kBar - 2,
               top + kPlotHeight - y_of(speed),
               fmt::format("fill='{}'", colour_of_series(position(arm.arm))),
               fmt::format("{}, {}: {:.2f}, step {:.1f} ms", result.name, to_string(arm.arm), speed,
                           1e3 * arm.median()));
    }
    const double right = left + group - kGroupGap;
    if (result.reference_seconds() > 0) {
      const double y = y_of(result.baseline()->median() / result.reference_seconds());
      svg.line(left - 4, y, right + 2, y,
               "stroke='#000000' stroke-width='1.1' stroke-dasharray='5 3'");
    }
    svg.text((left + right) / 2, top + kPlotHeight + 18,
             result.name + (result.emulated ? " (emulated)" : ""), Svg::Anchor::kMiddle,
             "font-size='12'");
  }
  svg.line(kLeft, y_of(0), kLeft + width, y_of(0), "stroke='#000000' stroke-width='1.1'");
  svg.text(kLeft, top + kPlotHeight + 34,
           "dashed: the reference, signals only plus the first and the last transfers",
           Svg::Anchor::kStart, "font-size='11' fill='#57606a'");
  return svg;
}

Svg draw_sweep(const std::vector<WorkloadResult>& all, const std::string& title) {
  const std::vector<WorkloadResult> results = by_transfer_ratio(all);
  const std::vector<std::string> names = legend_of(results, schedule_of);
  constexpr double kWidth = 520;
  const double top = kTop + legend_height(names.size()) + 14;
  double high = 1, right = 0;
  for (const WorkloadResult& result : results) {
    right = std::max(right, *result.transfer_ratio);
    for (const ArmResult& arm : result.arms)
      if (uses_weft(arm)) high = std::max(high, arm.median() / result.signal()->median());
  }
  const double low = 0.9;
  high = high + 0.05 * (high - low);
  Svg svg(kLeft + kWidth + kRight, top + kPlotHeight + 46);
  svg.text(kLeft, 20, title, Svg::Anchor::kStart, "font-size='14' font-weight='bold'");
  draw_legend(svg, kTop, names);
  const PlotRectangle area{kLeft, top, kWidth, kPlotHeight};
  draw_y_axis(svg, area, low, high, "step over signals only");
  const auto x_of = [&](double ratio) { return kLeft + (right > 0 ? ratio / right : 0) * kWidth; };
  const auto y_of = [&](double step) { return area.y_of(step, low, high); };
  for (const double tick : round_ticks(0, right, 6)) {
    if (tick > right) continue;
    svg.text(x_of(tick), top + kPlotHeight + 16, tick_label(tick, 0.25), Svg::Anchor::kMiddle,
             "font-size='11'");
  }
  svg.text(kLeft + kWidth / 2, top + kPlotHeight + 34,
           "time of a transfer over F+B; lines simulated, points measured", Svg::Anchor::kMiddle,
           "font-size='12'");
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::pair<double, double>> line;
    for (const WorkloadResult& result : results) {
      for (const ArmResult& arm : result.arms) {
        if (arm.arm.is_signal() || !uses_weft(arm) || schedule_of(arm.arm) != names[i]) continue;
        const double x = x_of(*result.transfer_ratio), signal = result.signal()->median();
        if (arm.predicted_seconds > 0) line.emplace_back(x, y_of(arm.predicted_seconds / signal));
        svg.circle(x, y_of(arm.median() / signal), 3.4,
                   fmt::format("fill='{}'", colour_of_series(i)));
      }
    }
    svg.polyline(line, fmt::format("stroke='{}' stroke-width='1.4'", colour_of_series(i)));
  }
  svg.line(kLeft, y_of(low), kLeft + kWidth, y_of(low), "stroke='#000000' stroke-width='1.1'");
  return svg;
}

}  // namespace weft::apps
