#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::apps {

/// Attributes of an SVG element beyond its geometry: "fill='#444' opacity='0.5'".
using SvgStyle = std::string_view;

/// A picture being drawn, element by element, on a white ground. It grows to the right where a text
/// (a title, a legend, a label) is wider than the size that was asked for. A value.
class Svg {
 public:
  /// Of bold text at the default size; an estimate, in pixels.
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
  /// Raw elements, such as patterns.
  void definitions(std::string_view elements);

  /// In pixels, with all texts that were drawn.
  double width() const { return width_; }
  std::string str() const;
  /// Throws Error(kUnavailable) if the file cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  double width_;
  double height_;
  std::string body_;
};

/// Round numbers that divide [low, high] in about `count` parts: [0, 97], 5 -> 0 20 40 60 80.
std::vector<double> round_ticks(double low, double high, int count);
/// A tick with as many digits as its spacing needs: 0.25, 3, 150.
std::string tick_label(double value, double spacing);

/// Of the n-th line or bar of a kind: Okabe and Ito's colours, which the colour-blind can tell
/// apart, then darker ones; then again.
std::string_view colour_of_series(std::size_t n);

/// Where a plot lies on a picture, in pixels.
struct PlotArea {
  double left = 0, top = 0, width = 0, height = 0;
};

/// Grid, its numbers on the left, and what they count, from bottom to top.
void draw_scale(Svg& svg, const PlotArea& area, double low, double high, std::string_view title);
/// The same of what is counted from left to right, with its numbers below.
void draw_scale_below(Svg& svg, const PlotArea& area, double low, double high,
                      std::string_view title);

/// A colour of a plot, and what it stands for.
struct LegendEntry {
  std::string_view colour;
  std::string name;
};
/// All of them side by side, from `left` on; `top`: of the coloured squares.
void draw_legend(Svg& svg, double left, double top, const std::vector<LegendEntry>& entries);

}  // namespace weft::apps
