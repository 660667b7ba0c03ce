#include "apps/bench/reshard/ratio_plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

constexpr double kRatioLeft = 64, kRatioRight = 16, kRatioTop = 70, kRatioBottom = 96;
constexpr double kRatioPlotHeight = 260;
/// Smaller cases are bound by latency, so the limit by bandwidth means little.
constexpr std::uint64_t kMinWindowBytes = std::uint64_t{2} << 20;
constexpr double kRatioBar = 9, kRatioGroupGap = 14;

/// Okabe and Ito's palette, which is safe for colour blindness. The first colour is for the
/// strategy that others are compared with.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#999999", "#009e73",
                                    "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"};

template <typename Get>
std::vector<std::string> distinct(const std::vector<BenchResult>& results, Get&& get) {
  std::vector<std::string> names;
  for (const BenchResult& result : results)
    if (std::find(names.begin(), names.end(), get(result)) == names.end())
      names.push_back(get(result));
  return names;
}

}  // namespace

std::optional<Svg> draw_ratios(const std::vector<BenchResult>& all, const std::string& title) {
  std::vector<BenchResult> results;
  for (const BenchResult& result : all)
    if (result.bytes >= kMinWindowBytes && result.was_run()) results.push_back(result);
  if (results.empty()) return std::nullopt;
  const auto cases = distinct(results, [](const BenchResult& result) { return result.case_name; });
  const auto strategies =
      distinct(results, [](const BenchResult& result) { return result.strategy; });
  const double group = kRatioBar * strategies.size() + kRatioGroupGap;
  const double plot_width = std::max(360.0, group * cases.size());
  const double width = kRatioLeft + plot_width + kRatioRight;
  Svg svg(width, kRatioTop + kRatioPlotHeight + kRatioBottom);
  double high = 1.0;
  for (const BenchResult& result : results)
    if (result.link_bytes_per_second <= 0) high = std::max(high, result.ratio_to_limit());
  high *= 1.08;
  const auto y_of = [&](double ratio) {
    return kRatioTop + (1 - std::min(ratio, high) / high) * kRatioPlotHeight;
  };

  svg.text(kRatioLeft, 22, title, Svg::Anchor::kStart, "font-size='15' font-weight='bold'");
  std::vector<LegendEntry> legend;
  for (std::size_t s = 0; s < strategies.size(); ++s)
    legend.push_back({kColours[s % std::size(kColours)], strategies[s]});
  draw_legend(svg, kRatioLeft, 36, legend);
  const double spacing = high > 1.2 ? high / 5 : 0.2;
  for (const double tick :
       high > 1.2 ? round_ticks(0, high, 5) : std::vector<double>{0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    svg.line(kRatioLeft, y_of(tick), kRatioLeft + plot_width, y_of(tick),
             "stroke='#dddddd' stroke-width='0.8'");
    svg.text(kRatioLeft - 6, y_of(tick) + 4, tick_label(tick, spacing), Svg::Anchor::kEnd,
             "font-size='11'");
  }
  svg.text(16, kRatioTop + kRatioPlotHeight / 2, "limit / time", Svg::Anchor::kMiddle,
           fmt::format("font-size='12' transform='rotate(-90 16 {})'",
                       kRatioTop + kRatioPlotHeight / 2));
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const double left = kRatioLeft + group * c + kRatioGroupGap / 2;
    for (std::size_t s = 0; s < strategies.size(); ++s) {
      const auto found =
          std::find_if(results.begin(), results.end(), [&](const BenchResult& result) {
            return result.case_name == cases[c] && result.strategy == strategies[s];
          });
      if (found == results.end()) continue;
      const double bar = left + kRatioBar * s;
      const double top = y_of(found->ratio_to_limit());
      svg.rect(bar, top, kRatioBar - 1, kRatioTop + kRatioPlotHeight - top,
               fmt::format("fill='{}'", kColours[s % std::size(kColours)]),
               fmt::format("{}, {}: {:.3f}", cases[c], strategies[s], found->ratio_to_limit()));
      const double middle = bar + (kRatioBar - 1) / 2;
      svg.line(middle, y_of(found->limit_seconds / found->minimum()), middle,
               y_of(found->limit_seconds / found->maximum()),
               "stroke='#222222' stroke-width='0.9'");
    }
    const double middle = left + kRatioBar * strategies.size() / 2;
    draw_bar_name(svg, middle, kRatioTop + kRatioPlotHeight + 14, cases[c]);
  }
  svg.line(kRatioLeft, y_of(1), kRatioLeft + plot_width, y_of(1),
           "stroke='#000000' stroke-width='1.1' stroke-dasharray='5 3'");
  svg.line(kRatioLeft, y_of(0), kRatioLeft + plot_width, y_of(0),
           "stroke='#000000' stroke-width='1.1'");
  return svg;
}

}  // namespace weft::apps
