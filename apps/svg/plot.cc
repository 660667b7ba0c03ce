#include "apps/svg/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace weft::apps {
namespace {

double round_spacing(double span, int count) {
  const double raw = span / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= raw * 0.999) return factor * power;
  return 10 * power;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double spacing = round_spacing(high - low, count);
  std::vector<double> ticks;
  for (double i = std::ceil(low / spacing - 1e-9); i * spacing <= high + spacing * 1e-9; ++i)
    ticks.push_back(i * spacing);
  return ticks;
}

std::string tick_label(double value, double spacing) {
  int digits = 0;
  for (double s = spacing; digits < 6 && std::abs(s - std::round(s)) > 1e-6; s *= 10) ++digits;
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, digits);
}

std::string_view colour_of_series(std::size_t n) {
  static constexpr std::string_view kColours[] = {"#999999", "#e69f00", "#56b4e9", "#009e73",
                                                  "#cc79a7", "#d55e00", "#0072b2", "#f0e442",
                                                  "#000000", "#7a4a00", "#1b5e79", "#7d2f60"};
  return kColours[n % std::size(kColours)];
}

void draw_y_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title) {
  const std::vector<double> ticks = round_ticks(low, high, 6);
  const double spacing = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    if (tick < low || tick > high) continue;
    const double y = area.y_of(tick, low, high);
    svg.line(area.left, y, area.left + area.width, y, "stroke='#dddddd' stroke-width='0.8'");
    svg.text(area.left - 6, y + 4, tick_label(tick, spacing), Svg::Anchor::kEnd, "font-size='11'");
  }
  const double x = area.left - 48, middle = area.top + area.height / 2;
  svg.text(x, middle, title, Svg::Anchor::kMiddle,
           fmt::format("font-size='12' transform='rotate(-90 {} {})'", x, middle));
}

void draw_x_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title) {
  const std::vector<double> ticks = round_ticks(low, high, 6);
  const double spacing = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  const double bottom = area.top + area.height;
  for (const double tick : ticks) {
    if (tick < low || tick > high) continue;
    const double x = area.x_of(tick, low, high);
    svg.line(x, area.top, x, bottom, "stroke='#dddddd' stroke-width='0.8'");
    svg.text(x, bottom + 16, tick_label(tick, spacing), Svg::Anchor::kMiddle, "font-size='11'");
  }
  svg.text(area.left + area.width / 2, bottom + 36, title, Svg::Anchor::kMiddle, "font-size='12'");
}

void draw_bar_name(Svg& svg, double middle, double top, std::string_view name) {
  svg.text(middle + 4, top, name, Svg::Anchor::kEnd,
           fmt::format("font-size='11' transform='rotate(-38 {} {})'", middle + 4, top));
}

void draw_legend(Svg& svg, double left, double top, const std::vector<LegendEntry>& entries) {
  constexpr double kSquare = 11, kLetterWidth = 6.6;
  for (const LegendEntry& entry : entries) {
    svg.rect(left, top, kSquare, kSquare, fmt::format("fill='{}'", entry.colour));
    svg.text(left + kSquare + 4, top + 10, entry.name, Svg::Anchor::kStart, "font-size='12'");
    left += 30 + kLetterWidth * static_cast<double>(entry.name.size());
  }
}

}  // namespace weft::apps
