#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace weft::apps {

/// Classes of a pixel: outside the brain, brain that the atlas does not name (white matter,
/// ventricles, brain stem), and the lobes of the atlas.
constexpr std::array<std::string_view, 10> kBrainRegions{
    "outside",   "unnamed brain", "frontal",     "insula",   "limbic",
    "occipital", "parietal",      "deep nuclei", "temporal", "cerebellum"};

/// Returns the class of every label of the AAL atlas (Tzourio-Mazoyer et al. 2002), read from the
/// atlas's table. Its lines are "label name code"; the thousands of the code give the lobe, in the
/// order of kBrainRegions. Element 0 is 0. Throws Error(kNotFound) if the table cannot be read,
/// Error(kDataLoss) if its format is wrong.
std::vector<std::uint8_t> read_region_table(const std::filesystem::path& path);

}  // namespace weft::apps
