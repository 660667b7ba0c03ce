#include "apps/bench/select/selection_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

constexpr double kGridLeft = 64, kGridTop = 78, kGridWidth = 340, kGridHeight = 280;
constexpr double kGridBetween = 70, kGridRight = 24, kGridBottom = 52;
constexpr double kArmsTop = 44, kArmSlot = 56;

/// Returns the distinct values of a member in ascending order.
std::vector<std::uint32_t> values_of(const std::vector<GridCell>& cells,
                                     std::uint32_t GridCell::*member) {
  std::vector<std::uint32_t> values;
  for (const GridCell& cell : cells)
    if (std::ranges::find(values, cell.*member) == values.end()) values.push_back(cell.*member);
  std::ranges::sort(values);
  return values;
}

/// Returns a line's colour. Skips the first colour, which is reserved for the reference.
std::string_view colour_of_partitions(std::size_t place) { return colour_of_series(place + 1); }

void draw_numbers(Svg& svg, const PlotRectangle& area, const std::vector<std::uint32_t>& rounds) {
  const double slot = area.width / static_cast<double>(rounds.size());
  for (std::size_t i = 0; i < rounds.size(); ++i)
    svg.text(area.left + (static_cast<double>(i) + 0.5) * slot, area.top + area.height + 16,
             std::to_string(rounds[i]), Svg::Anchor::kMiddle, "font-size='11'");
  svg.text(area.left + area.width / 2, area.top + area.height + 36, "rounds", Svg::Anchor::kMiddle,
           "font-size='12'");
}

}  // namespace

Svg draw_grid(const std::vector<GridCell>& cells, const CentralResult& central,
              const std::string& title) {
  const auto partitions = values_of(cells, &GridCell::partitions);
  const auto rounds = values_of(cells, &GridCell::rounds);
  Svg svg(kGridLeft + 2 * kGridWidth + kGridBetween + kGridRight,
          kGridTop + kGridHeight + kGridBottom);
  svg.text(kGridLeft, 24, title, Svg::Anchor::kStart, "font-size='15' font-weight='bold'");
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < partitions.size(); ++i)
    legend.push_back({colour_of_partitions(i), fmt::format("m = {}", partitions[i])});
  draw_legend(svg, kGridLeft, 36, legend);
  for (const bool adaptive : {true, false}) {
    const PlotRectangle area{kGridLeft + (adaptive ? 0 : kGridWidth + kGridBetween), kGridTop,
                             kGridWidth, kGridHeight};
    draw_y_axis(svg, area, 0, 100, "normalised score; 100: greedy in one process");
    draw_numbers(svg, area, rounds);
    svg.text(area.left + area.width / 2, area.top - 10,
             adaptive ? "adaptive: at most m partitions" : "always m partitions",
             Svg::Anchor::kMiddle, "font-size='12' font-weight='600'");
    for (std::size_t i = 0; i < partitions.size(); ++i) {
      std::vector<std::pair<double, double>> line;
      for (const GridCell& cell : cells) {
        if (cell.adaptive != adaptive || cell.partitions != partitions[i]) continue;
        const auto place =
            static_cast<double>(std::ranges::find(rounds, cell.rounds) - rounds.begin());
        line.emplace_back(
            area.left + (place + 0.5) * area.width / static_cast<double>(rounds.size()),
            area.top + (1 - normalised(cell, cells, central) / 100) * area.height);
      }
      const std::string_view colour = colour_of_partitions(i);
      svg.polyline(line, fmt::format("stroke='{}' stroke-width='1.8'", colour));
      for (const auto& [x, y] : line) svg.circle(x, y, 3, fmt::format("fill='{}'", colour));
    }
  }
  return svg;
}

Svg draw_arms(const std::vector<BenchArm>& arms, const std::string& title) {
  struct Panel {
    const char* name;
    std::function<double(const BenchArm&)> value;
  };
  std::vector<Panel> panels = {
      {"million point visits a second",
       [](const BenchArm& arm) { return arm.visits_per_second / 1e6; }},
      {"MiB at most in a process", [](const BenchArm& arm) { return arm.peak_bytes / (1 << 20); }}};
  if (std::ranges::any_of(arms, [](const BenchArm& arm) { return arm.gap_closed.has_value(); }))
    panels.push_back({"share of the gap from random to central",
                      [](const BenchArm& arm) { return arm.gap_closed.value_or(0); }});
  const double width = std::max(180.0, kArmSlot * static_cast<double>(arms.size()));
  const auto num_panels = static_cast<double>(panels.size());
  Svg svg(kGridLeft + num_panels * width + (num_panels - 1) * kGridBetween + kGridRight,
          kArmsTop + kGridHeight + 100);
  svg.text(kGridLeft, 24, title, Svg::Anchor::kStart, "font-size='15' font-weight='bold'");
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const PlotRectangle area{kGridLeft + static_cast<double>(p) * (width + kGridBetween), kArmsTop,
                             width, kGridHeight};
    double low = 0, high = 0;
    for (const BenchArm& arm : arms) {
      low = std::min(low, panels[p].value(arm));
      high = std::max(high, panels[p].value(arm));
    }
    high = high > low ? high + 0.08 * (high - low) : low + 1;
    draw_y_axis(svg, area, low, high, panels[p].name);
    const auto y_of = [&](double value) { return area.y_of(value, low, high); };
    const double slot = width / static_cast<double>(arms.size());
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const double value = panels[p].value(arms[i]);
      const double middle = area.left + (static_cast<double>(i) + 0.5) * slot;
      const double top = std::min(y_of(value), y_of(0)), height = std::abs(y_of(value) - y_of(0));
      const double bar = std::min(0.7 * slot, 40.0);
      svg.rect(middle - bar / 2, top, bar, height, fmt::format("fill='{}'", colour_of_series(6)),
               fmt::format("{}: {:.3g}", arms[i].name, value));
      draw_bar_name(svg, middle, area.top + area.height + 14, arms[i].name);
    }
    svg.line(area.left, y_of(0), area.left + area.width, y_of(0), "stroke='#8c959f'");
  }
  return svg;
}

}  // namespace weft::apps
