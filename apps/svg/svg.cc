#include "apps/svg/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "core/base/error.h"

namespace weft::apps {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  return result;
}

/// Formats with at most two decimals and no trailing zeros, to keep files small.
std::string coordinate(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

/// Returns the font size in a style; 12 if it has none.
double font_size(SvgStyle style) {
  constexpr std::string_view kKey = "font-size='";
  const auto at = style.find(kKey);
  double size = 12;
  if (at == SvgStyle::npos) return size;
  const std::string_view text = style.substr(at + kKey.size());
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

/// Estimates the width of a text, rather too large than too small.
double text_width(std::string_view text, SvgStyle style) {
  const bool bold = style.find("font-weight") != SvgStyle::npos;
  const auto letters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  return static_cast<double>(letters) * font_size(style) * (bold ? 0.66 : 0.58);
}

constexpr double kTextMargin = 8;  // pixels right of the widest text

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rect(double x, double y, double width, double height, SvgStyle style,
               std::string_view tooltip) {
  body_ += fmt::format("<rect x='{}' y='{}' width='{}' height='{}' {}", coordinate(x),
                       coordinate(y), coordinate(width), coordinate(height), style);
  body_ += tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(tooltip));
}

void Svg::line(double x1, double y1, double x2, double y2, SvgStyle style) {
  body_ += fmt::format("<line x1='{}' y1='{}' x2='{}' y2='{}' {}/>\n", coordinate(x1),
                       coordinate(y1), coordinate(x2), coordinate(y2), style);
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, SvgStyle style) {
  body_ += "<polyline points='";
  for (const auto& [x, y] : points) body_ += coordinate(x) + "," + coordinate(y) + " ";
  body_ += fmt::format("' fill='none' {}/>\n", style);
}

void Svg::circle(double x, double y, double radius, SvgStyle style) {
  body_ += fmt::format("<circle cx='{}' cy='{}' r='{}' {}/>\n", coordinate(x), coordinate(y),
                       coordinate(radius), style);
}

void Svg::text(double x, double y, std::string_view text, Anchor anchor, SvgStyle style) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  if (style.find("rotate") == SvgStyle::npos) {
    const double after[] = {1, 0.5, 0};
    width_ = std::max(width_,
                      x + text_width(text, style) * after[static_cast<int>(anchor)] + kTextMargin);
  }
  body_ += fmt::format("<text x='{}' y='{}' text-anchor='{}' {}>{}</text>\n", coordinate(x),
                       coordinate(y), kAnchors[static_cast<int>(anchor)], style, escaped(text));
}

void Svg::definitions(std::string_view elements) {
  body_ += fmt::format("<defs>{}</defs>\n", elements);
}

std::string Svg::str() const {
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='system-ui, -apple-system, \"DejaVu Sans\", Helvetica, Arial, sans-serif' "
      "font-size='12' "
      "fill='#24292f'>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n{2}</svg>\n",
      coordinate(width_), coordinate(height_), body_);
}

void Svg::write(const std::filesystem::path& path) const {
  std::ofstream out(path);
  out << str();
  out.close();
  if (!out)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(),
                std::strerror(errno));
}

}  // namespace weft::apps
