#include "apps/select/selection_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "apps/run_files/progress_display.h"
#include "apps/select/point_sample.h"
#include "apps/select/projection.h"
#include "apps/selection/neighbours.h"
#include "apps/svg/plot.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Points drawn of all, and of the chosen: as many as a picture can show.
constexpr std::uint64_t kDrawnOfAll = 4000, kDrawnOfChosen = 1500;
/// Maximum floats of the drawn vectors.
constexpr std::uint64_t kMostNumbers = std::uint64_t{4} << 20;

constexpr double kMapLeft = 72, kMapTop = 64, kMapSide = 600, kMapBottom = 56, kMapRight = 24;
constexpr std::string_view kChosenDot = "#0072b2", kLeftOutDot = "#999999";

/// Range of an axis: all dots and a margin.
struct PlotRange {
  double low = 0, high = 0;

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    const double margin = high > low ? 0.04 * (high - low) : 1;
    low -= margin;
    high += margin;
  }
  double share(double value) const { return (value - low) / (high - low); }
};

/// Returns "chosen: 1,500 of 5,387 are shown".
std::string shown_of(const char* what, std::size_t shown, std::uint64_t all) {
  const std::string number = with_thousands(static_cast<double>(all));
  if (shown == all) return fmt::format("{}: {}", what, number);
  return fmt::format("{}: {} of {} are shown", what, with_thousands(static_cast<double>(shown)),
                     number);
}

}  // namespace

SelectionMap map_selection(SelectionRun& selection, const NpyFile& vectors, std::uint64_t seed) {
  SelectionMap map;
  map.num_points = vectors.rows();
  const std::uint64_t fitting = std::max<std::uint64_t>(kMostNumbers / vectors.columns(), 2);
  PointSample of_all(std::min(kDrawnOfAll, fitting), seed);
  PointSample of_chosen(std::min(kDrawnOfChosen, fitting / 2), seed);
  for (std::uint64_t id = 0; id < vectors.rows(); ++id) of_all.offer(static_cast<PointId>(id));
  const std::vector<PointId> left_out = of_all.take();
  std::vector<bool> is_chosen(left_out.size(), false);
  selection.each_result([&](const ResultPoint& point) {
    of_chosen.offer(point.id);
    ++map.num_chosen;
    const auto at = std::ranges::lower_bound(left_out, point.id);
    if (at != left_out.end() && *at == point.id) is_chosen[at - left_out.begin()] = true;
  });
  const std::vector<PointId> chosen = of_chosen.take();
  std::vector<PointId> rows = chosen;
  for (std::size_t i = 0; i < left_out.size(); ++i)
    if (!is_chosen[i]) rows.push_back(left_out[i]);

  std::vector<float> values(rows.size() * vectors.columns());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = std::span(values).subspan(i * vectors.columns(), vectors.columns());
    vectors.read(rows[i], row);
    normalise_vectors(row, vectors.columns(), vectors.path(), rows[i]);
  }
  PlaneProjection plane = project_to_plane({values, vectors.columns()});
  map.shares = plane.shares;
  const auto first_left_out = plane.points.begin() + static_cast<std::ptrdiff_t>(chosen.size());
  map.chosen.assign(plane.points.begin(), first_left_out);
  map.left_out.assign(first_left_out, plane.points.end());
  return map;
}

Svg draw_map(const SelectionMap& map, const std::string& title) {
  std::array<PlotRange, 2> axes;
  for (const auto* dots : {&map.chosen, &map.left_out})
    for (const SelectionMap::Dot& dot : *dots)
      for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis].include(dot[axis]);
  for (PlotRange& axis : axes) axis.widen();
  const PlotRectangle area{kMapLeft, kMapTop, kMapSide, kMapSide};
  Svg svg(kMapLeft + kMapSide + kMapRight, kMapTop + kMapSide + kMapBottom);
  svg.text(kMapLeft, 24, title, Svg::Anchor::kStart, "font-size='15' font-weight='bold'");
  draw_legend(
      svg, kMapLeft, 38,
      {{kChosenDot, shown_of("chosen", map.chosen.size(), map.num_chosen)},
       {kLeftOutDot, shown_of("left out", map.left_out.size(), map.num_points - map.num_chosen)}});
  const auto name = [&](const char* which, std::size_t axis) {
    return fmt::format("{} principal component, {:.0f} % of the variance", which,
                       100 * map.shares[axis]);
  };
  draw_y_axis(svg, area, axes[1].low, axes[1].high, name("second", 1));
  draw_x_axis(svg, area, axes[0].low, axes[0].high, name("first", 0));
  const auto draw = [&](const std::vector<SelectionMap::Dot>& dots, double radius,
                        std::string_view style) {
    for (const SelectionMap::Dot& dot : dots)
      svg.circle(area.left + axes[0].share(dot[0]) * area.width,
                 area.top + (1 - axes[1].share(dot[1])) * area.height, radius, style);
  };
  draw(map.left_out, 1.8, fmt::format("fill='{}' opacity='0.55'", kLeftOutDot));
  draw(map.chosen, 2.2, fmt::format("fill='{}' opacity='0.8'", kChosenDot));
  return svg;
}

}  // namespace weft::apps
