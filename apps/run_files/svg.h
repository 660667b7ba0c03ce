#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::apps {

/// Attributes of an SVG element beyond its geometry: "fill='#444' opacity='0.5'".
using SvgStyle = std::string_view;

/// Picture on a white background, drawn element by element. Becomes wider if a text (a title, a
/// legend, a label) exceeds its width.
class Svg {
 public:
  /// Estimated letter width of bold text at the default size, in pixels.
  static constexpr double kBoldLetterWidth = 8;

  Svg(double width, double height);

  void rect(double x, double y, double width, double height, SvgStyle style,
            std::string_view tooltip = {});
  void line(double x1, double y1, double x2, double y2, SvgStyle style);
  void polyline(const std::vector<std::pair<double, double>>& points, SvgStyle style);
  void circle(double x, double y, double radius, SvgStyle style);
  enum class Anchor { kStart, kMiddle, kEnd };
  /// `y` is the text's base line.
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::kStart,
            SvgStyle style = {});
  /// Adds raw elements, such as patterns.
  void definitions(std::string_view elements);

  /// Width in pixels, including all texts drawn so far.
  double width() const { return width_; }
  std::string str() const;
  /// Throws Error(kUnavailable) if the file cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  double width_;
  double height_;
  std::string body_;
};

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
};

/// Draws a vertical scale: grid lines, numbers on the left, and the title along them.
void draw_y_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title);
/// Draws a horizontal scale: grid lines, numbers below, and the title under them.
void draw_x_axis(Svg& svg, const PlotRectangle& area, double low, double high,
                 std::string_view title);

/// Colour of a plot and its meaning.
struct LegendEntry {
  std::string_view colour;
  std::string name;
};
/// Draws the entries side by side, from `left` on. `top` is the top of the coloured squares.
void draw_legend(Svg& svg, double left, double top, const std::vector<LegendEntry>& entries);

}  // namespace weft::apps
