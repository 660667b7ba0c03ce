#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/data/picture.h"
#include "apps/select_input/prepare_input.h"

namespace weft::apps {

/// A row that was not chosen, and a chosen one that is its neighbour.
struct RejectedNeighbour {
  std::uint64_t chosen = 0, rejected = 0;
  double similarity = 0;  ///< 0 to 1.
  friend bool operator==(const RejectedNeighbour&, const RejectedNeighbour&) = default;
};

/// A chosen row, and the rows that were left out beside it: the most similar first.
struct SheetStrip {
  static constexpr std::size_t kRejected = 4;  ///< At most.

  std::uint64_t chosen = 0;
  std::vector<RejectedNeighbour> rejected = {};
  friend bool operator==(const SheetStrip&, const SheetStrip&) = default;
};

/// A strip for each of the first kStripsOfSheet rows of `chosen`, in their order.
inline constexpr std::size_t kStripsOfSheet = 60;
std::vector<SheetStrip> sheet_strips(std::span<const std::uint64_t> chosen,
                                     std::span<const RejectedNeighbour> neighbours);

/// Pictures of a strip side by side, strips in three columns: the chosen one framed green, those
/// left out red, with a bar beneath as long as the similarity. `pictures`: of all rows, at most
/// kSidePixels wide and high.
inline constexpr int kSidePixels = 84;
Picture contact_sheet(std::span<const SheetStrip> strips,
                      const std::map<std::uint64_t, Picture>& pictures);

/// The same of texts, one below the other. `texts`: of all rows.
std::string contact_text(std::span<const SheetStrip> strips,
                         const std::map<std::uint64_t, std::string>& texts);

/// Writes them for people who look at a selection: `folder`/chosen.png of pictures, chosen.txt of
/// texts, whose rows are looked up in the input. Gives the file; nothing for vectors. Throws what
/// reading the input throws, and Error(kUnavailable) if the file cannot be written.
std::optional<std::filesystem::path> write_contact_sheet(
    const SelectInput& input, const PreparedInput& prepared, std::span<const std::uint64_t> chosen,
    std::span<const RejectedNeighbour> neighbours, const std::filesystem::path& folder);

}  // namespace weft::apps
