#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace weft::apps {

/// The classes of a pixel: outside of the brain, brain that the atlas leaves unnamed (white matter,
/// ventricles, brain stem), and the atlas' lobes.
constexpr std::array<std::string_view, 10> kBrainRegions{
    "outside",   "unnamed brain", "frontal",     "insula",   "limbic",
    "occipital", "parietal",      "deep nuclei", "temporal", "cerebellum"};

/// The class of every label of the AAL atlas (Tzourio-Mazoyer et al. 2002), from the table that
/// comes with it: lines "label name code", where the thousands of the code are the lobe, in the
/// order of kBrainRegions. Element 0 is 0. Throws Error(kNotFound) if the table cannot be read, and
/// Error(kDataLoss) if it is not such a table.
std::vector<std::uint8_t> read_region_table(const std::filesystem::path& path);

}  // namespace weft::apps
