#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "apps/svg/svg.h"

namespace weft::apps {

/// Returns round numbers that divide [low, high] into about `count` parts: [0, 97], 5 -> 0 20 40 60
/// 80.
std::vector<double> round_ticks(double low, double high, int count);
/// Formats a tick with as many digits as its spacing needs: 0.25, 3, 150.
std::string tick_label(double value, double spacing);

/// Returns the colour of the n-th line or bar: Okabe and Ito's palette, which is safe for colour
/// blindness, then darker colours, then the same again.
std::string_view colour_of_series(std::size_t n);

/// Area of a plot on a picture, in pixels.
struct PlotRectangle {
  double left = 0, top = 0, width = 0, height = 0;

  /// Returns the pixel of a value on a horizontal scale from `low` to `high`.
  double x_of(double value, double low, double high) const {
    return left + (value - low) / (high - low) * width;
  }
  /// Returns the pixel of a value on a vertical scale from `low`, at the bottom, to `high`.
  double y_of(double value, double low, double high) const {
    return top + (high - value) / (high - low) * height;
  }
};

/// Draws a vertical scale: grid lines, numbers on the left, and the title along them.
void draw_y_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title);
/// Draws a horizontal scale: grid lines, numbers below, and the title under them.
void draw_x_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title);

/// Draws the slanted name of a bar below its middle. `top` is the base line of the first letters.
void draw_bar_name(Svg& svg, double middle, double top, std::string_view name);

/// Colour of a plot and its meaning.
struct LegendEntry {
  std::string_view colour;
  std::string name;
};
/// Draws the entries side by side, from `left` on. `top` is the top of the coloured squares.
void draw_legend(Svg& svg, double left, double top, const std::vector<LegendEntry>& entries);

}  // namespace weft::apps
