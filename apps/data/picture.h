#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::apps {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(const Colour&, const Colour&) = default;
};

/// Colour picture, row-major from the top left. A value.
class Picture {
 public:
  /// Throws Error(kInvalidArgument) unless both sizes are positive.
  Picture(int width, int height, Colour background = {});

  int width() const { return width_; }
  int height() const { return height_; }
  Colour at(int x, int y) const { return pixels_[index(x, y)]; }
  void set(int x, int y, Colour colour) { pixels_[index(x, y)] = colour; }
  /// Draws `other` with its top left corner at (x, y). Clips at the edges.
  void paste(const Picture& other, int x, int y);
  /// Returns the picture with every pixel drawn as a square of `factor` by `factor`.
  Picture enlarged(int factor) const;

 private:
  std::size_t index(int x, int y) const { return y * static_cast<std::size_t>(width_) + x; }

  int width_;
  int height_;
  std::vector<Colour> pixels_;
};

/// Returns the bytes of a PNG file: 8 bits per colour, no alpha (RFC 2083).
std::string to_png(const Picture& picture);
/// Writes a PNG file. Throws Error(kUnavailable) if the file cannot be written.
void write_png(const Picture& picture, const std::filesystem::path& path);

}  // namespace weft::apps
