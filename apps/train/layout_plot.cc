#include "apps/train/layout_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/svg/plot.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr double kMiB = 1024 * 1024;
constexpr double kLayoutPlotLeft = 64, kLayoutPlotTop = 84, kLayoutPlotHeight = 260;
constexpr double kPanelGap = 84, kColumn = 86, kColumnBar = 46, kLayoutPlotBottom = 54;

/// Segment of a stacked bar.
struct Part {
  std::string name;
  double bytes = 0;
};
struct Bar {
  std::string name;
  std::vector<Part> parts;
  double line = 0;  ///< Bytes at which a dashed line is drawn; 0: none.
  double sum() const {
    double all = 0;
    for (const Part& part : parts) all += part.bytes;
    return all;
  }
};

void draw_panel(Svg& svg, double left, const std::vector<Bar>& bars, const std::string& title) {
  std::vector<std::string> names;  // part names, in order of appearance
  double high = 0;
  for (const Bar& bar : bars) {
    high = std::max({high, bar.sum(), bar.line});
    for (const Part& part : bar.parts)
      if (std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
  }
  if (high == 0) return;
  high *= 1.05 / kMiB;
  const PlotRectangle area{left, kLayoutPlotTop, kColumn * static_cast<double>(bars.size()),
                           kLayoutPlotHeight};
  draw_y_axis(svg, area, 0, high, title);
  const auto y_of = [&](double bytes) { return area.y_of(bytes / kMiB, 0, high); };
  const auto style_of = [&](const std::string& name) {
    const auto at = std::ranges::find(names, name) - names.begin();
    return fmt::format("fill='{}'", colour_of_series(static_cast<std::size_t>(at) + 1));
  };
  double x = left, y = 40;
  for (const std::string& name : names) {
    const double width = 26 + 7 * static_cast<double>(name.size());
    if (x + width > left + area.width && x > left) {
      x = left;
      y += 17;
    }
    svg.rect(x, y, 11, 11, style_of(name));
    svg.text(x + 15, y + 10, name, Svg::Anchor::kStart, "font-size='12'");
    x += width;
  }
  for (std::size_t b = 0; b < bars.size(); ++b) {
    const Bar& bar = bars[b];
    const double begin = left + kColumn * static_cast<double>(b) + (kColumn - kColumnBar) / 2;
    double below = 0;
    for (const Part& part : bar.parts) {
      const double from = y_of(below), to = y_of(below + part.bytes);
      svg.rect(
          begin, to, kColumnBar, from - to, style_of(part.name),
          fmt::format("{}, {}: {}", bar.name, part.name, format_bytes(std::llround(part.bytes))));
      below += part.bytes;
    }
    if (bar.line > 0)
      svg.line(begin - 8, y_of(bar.line), begin + kColumnBar + 8, y_of(bar.line),
               "stroke='#000000' stroke-width='1.3' stroke-dasharray='5 3'");
    svg.text(begin + kColumnBar / 2, area.top + area.height + 18, bar.name, Svg::Anchor::kMiddle,
             "font-size='12'");
  }
  svg.line(left, y_of(0), left + area.width, y_of(0), "stroke='#000000' stroke-width='1.1'");
}

}  // namespace

Svg draw_layouts(const std::vector<LayoutCosts>& figures, const std::string& title) {
  std::vector<Bar> received, memory;
  for (const LayoutCosts& one : figures) {
    if (!one.unusable_because.empty()) continue;
    Bar bytes{one.layout, {}, one.linear_bytes()}, kept{one.layout, {}};
    for (const auto& [axes, along] : one.by_axes) bytes.parts.push_back({axes, along.received});
    const std::uint64_t gathered = std::min(one.gathered, one.activations);
    kept.parts = {{"state", static_cast<double>(one.state)},
                  {"activations", static_cast<double>(one.activations - gathered)},
                  {"gathered weights", static_cast<double>(gathered)}};
    received.push_back(std::move(bytes));
    memory.push_back(std::move(kept));
  }
  const double panel = kColumn * static_cast<double>(std::max<std::size_t>(received.size(), 3));
  const double second = kLayoutPlotLeft + panel + kPanelGap;
  Svg svg(second + panel + 20, kLayoutPlotTop + kLayoutPlotHeight + kLayoutPlotBottom);
  svg.text(kLayoutPlotLeft, 22, title, Svg::Anchor::kStart, "font-size='14' font-weight='bold'");
  draw_panel(svg, kLayoutPlotLeft, received, "received per device and step, MiB");
  draw_panel(svg, second, memory, "memory per device, MiB");
  svg.text(kLayoutPlotLeft, kLayoutPlotTop + kLayoutPlotHeight + 40,
           "of the device that has most; dashed: the share of linear layers that theory says",
           Svg::Anchor::kStart, "font-size='11' fill='#57606a'");
  return svg;
}

}  // namespace weft::apps
