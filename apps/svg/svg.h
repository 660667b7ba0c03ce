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

}  // namespace weft::apps
