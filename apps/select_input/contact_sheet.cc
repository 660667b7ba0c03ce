#include "apps/select_input/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "apps/data/picture_text.h"
#include "apps/select_input/row_contents.h"
#include "core/base/durable_file.h"

namespace weft::apps {
namespace {

constexpr int kStripsAcross = 3, kFrame = 3, kBar = 4, kGap = 4, kMargin = 12;
constexpr int kCell = kSidePixels + 2 * kFrame;
constexpr Colour kPaper{255, 255, 255}, kChosen{40, 160, 70}, kRejected{200, 60, 50};
constexpr std::size_t kTextBytes = 600;  // shown bytes of a row

Picture framed(const Picture& picture, Colour frame) {
  Picture cell(kCell, kCell, frame);
  cell.paste(Picture(kSidePixels, kSidePixels, {0, 0, 0}), kFrame, kFrame);
  cell.paste(picture, (kCell - picture.width()) / 2, (kCell - picture.height()) / 2);
  return cell;
}

/// Returns the text as one line of at most kTextBytes, cut between characters of UTF-8.
std::string shortened(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!is_space) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
  }
  if (line.size() <= kTextBytes) return line;
  std::size_t end = kTextBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return line.substr(0, end) + " ...";
}

}  // namespace

std::vector<SheetStrip> sheet_strips(std::span<const std::uint64_t> chosen,
                                     std::span<const RejectedNeighbour> neighbours) {
  std::vector<SheetStrip> strips;
  std::map<std::uint64_t, std::size_t> places;
  for (const std::uint64_t row : chosen.first(std::min(chosen.size(), kStripsOfSheet))) {
    places.emplace(row, strips.size());
    strips.push_back({.chosen = row});
  }
  for (const RejectedNeighbour& neighbour : neighbours) {
    if (const auto found = places.find(neighbour.chosen); found != places.end())
      strips[found->second].rejected.push_back(neighbour);
  }
  for (SheetStrip& strip : strips) {
    std::ranges::sort(strip.rejected, [](const auto& a, const auto& b) {
      return a.similarity != b.similarity ? a.similarity > b.similarity : a.rejected < b.rejected;
    });
    if (strip.rejected.size() > SheetStrip::kRejected) strip.rejected.resize(SheetStrip::kRejected);
  }
  return strips;
}

Picture contact_sheet(std::span<const SheetStrip> strips,
                      const std::map<std::uint64_t, Picture>& pictures) {
  const int across = (1 + static_cast<int>(SheetStrip::kRejected)) * (kCell + kGap) + kMargin;
  const int down = kCell + kBar + kMargin;
  const int count = static_cast<int>(strips.size());
  const int height = std::max(1, (count + kStripsAcross - 1) / kStripsAcross) * down + kMargin;
  Picture sheet(std::clamp(count, 1, kStripsAcross) * across + kMargin,
                height + 3 * kLineHeight + kMargin, kPaper);
  draw_text(sheet, kMargin, height, "green: chosen", kChosen);
  draw_text(sheet, kMargin, height + kLineHeight,
            "red: left out, as it is similar to the chosen one", kRejected);
  draw_text(sheet, kMargin, height + 2 * kLineHeight,
            "bar below: how similar, from 0 to the whole width", kRejected);
  for (int i = 0; i < count; ++i) {
    const SheetStrip& strip = strips[i];
    int x = kMargin + i % kStripsAcross * across;
    const int y = kMargin + i / kStripsAcross * down;
    sheet.paste(framed(pictures.at(strip.chosen), kChosen), x, y);
    for (const RejectedNeighbour& neighbour : strip.rejected) {
      x += kCell + kGap;
      sheet.paste(framed(pictures.at(neighbour.rejected), kRejected), x, y);
      const auto length =
          static_cast<int>(std::lround(std::clamp(neighbour.similarity, 0.0, 1.0) * kCell));
      if (length > 0) sheet.paste(Picture(length, kBar, kRejected), x, y + kCell);
    }
  }
  return sheet;
}

std::string contact_text(std::span<const SheetStrip> strips,
                         const std::map<std::uint64_t, std::string>& texts) {
  std::string all;
  for (const SheetStrip& strip : strips) {
    all += fmt::format("chosen, row {}\n  {}\n", strip.chosen, shortened(texts.at(strip.chosen)));
    for (const RejectedNeighbour& neighbour : strip.rejected)
      all +=
          fmt::format("    left out, similarity {:.2f}, row {}\n      {}\n", neighbour.similarity,
                      neighbour.rejected, shortened(texts.at(neighbour.rejected)));
    all += "\n";
  }
  return all;
}

std::optional<std::filesystem::path> write_contact_sheet(
    const SelectInput& input, const PreparedInput& prepared, std::span<const std::uint64_t> chosen,
    std::span<const RejectedNeighbour> neighbours, const std::filesystem::path& folder) {
  if (prepared.kind == InputKind::kVectors) return std::nullopt;
  const std::vector<SheetStrip> strips = sheet_strips(chosen, neighbours);
  std::set<std::uint64_t> rows;
  for (const SheetStrip& strip : strips) {
    rows.insert(strip.chosen);
    for (const RejectedNeighbour& neighbour : strip.rejected) rows.insert(neighbour.rejected);
  }
  if (prepared.kind == InputKind::kPictures) {
    const std::filesystem::path path = folder / "chosen.png";
    write_png(contact_sheet(strips, pictures_of_rows(input, prepared, rows, kSidePixels)), path);
    return path;
  }
  const std::filesystem::path path = folder / "chosen.txt";
  write_durably(path, contact_text(strips, texts_of_rows(input, prepared, rows)));
  return path;
}

}  // namespace weft::apps
