#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/picture.h"
#include "apps/images/labelled_images.h"

namespace weft::apps {

/// The subfolders of a folder, by name: its labels. Throws Error(kInvalidArgument) unless there are
/// at least two, and no files beside them; Error(kNotFound) if there is no such folder.
std::vector<std::string> labels_of_folder(const std::filesystem::path& folder);

/// The files that read_image_folder() reads, in its order. Throws as it does of labels and names.
std::vector<std::filesystem::path> pictures_of_folder(const std::filesystem::path& folder);

/// The PNG files in the subfolders, by label, then by name, scaled to one size. Throws
/// Error(kInvalidArgument), which names the folder or file, for a label that is none of `classes`,
/// a label without pictures, and what is not a PNG file; and what read_png() throws.
LabelledImages read_image_folder(const std::filesystem::path& folder,
                                 const std::vector<std::string>& classes, int height, int width,
                                 int colours);

/// The picture stretched to another size: each pixel is the mean of the area that it covers, in
/// whole numbers, so that every machine makes the same of it. Values row by row, `colours` (1 or 3)
/// of a pixel one after the other; grey is 0.299 red + 0.587 green + 0.114 blue.
std::vector<std::uint8_t> scaled_values(const Picture& picture, int height, int width, int colours);

}  // namespace weft::apps
