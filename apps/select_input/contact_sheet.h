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

/// Rejected row and the chosen row whose neighbour it is.
struct RejectedNeighbour {
  std::uint64_t chosen = 0, rejected = 0;
  double similarity = 0;  ///< Between 0 and 1.
  friend bool operator==(const RejectedNeighbour&, const RejectedNeighbour&) = default;
};

/// Chosen row and its rejected neighbours, the most similar first.
struct SheetStrip {
  static constexpr std::size_t kRejected = 4;  ///< Maximum rejected rows of a strip.

  std::uint64_t chosen = 0;
  std::vector<RejectedNeighbour> rejected = {};
  friend bool operator==(const SheetStrip&, const SheetStrip&) = default;
};

/// Returns a strip for each of the first kStripsOfSheet rows of `chosen`, in their order.
inline constexpr std::size_t kStripsOfSheet = 60;
std::vector<SheetStrip> sheet_strips(std::span<const std::uint64_t> chosen,
                                     std::span<const RejectedNeighbour> neighbours);

/// Draws strips in three columns. The chosen picture has a green frame. Rejected ones have a red
/// frame and a bar below whose length is the similarity. `pictures` must contain all rows, at most
/// kSidePixels wide and high.
inline constexpr int kSidePixels = 84;
Picture contact_sheet(std::span<const SheetStrip> strips,
                      const std::map<std::uint64_t, Picture>& pictures);

/// Formats the strips of texts, one below the other. `texts` must contain all rows.
std::string contact_text(std::span<const SheetStrip> strips,
                         const std::map<std::uint64_t, std::string>& texts);

/// Writes the contact sheet for users, with rows read from the input: `folder`/chosen.png for
/// pictures, chosen.txt for texts. Returns the file, null for vectors. Throws as reading the input
/// does, and Error(kUnavailable) if the file cannot be written.
std::optional<std::filesystem::path> write_contact_sheet(
    const SelectInput& input, const PreparedInput& prepared, std::span<const std::uint64_t> chosen,
    std::span<const RejectedNeighbour> neighbours, const std::filesystem::path& folder);

}  // namespace weft::apps
