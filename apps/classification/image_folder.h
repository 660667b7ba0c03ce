#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/classification/labelled_images.h"
#include "apps/data/picture.h"

namespace weft::apps {

/// Returns the labels: the names of the subfolders, sorted. Throws Error(kInvalidArgument) if there
/// are fewer than two or if the folder also has files, Error(kNotFound) if the folder does not
/// exist.
std::vector<std::string> labels_of_folder(const std::filesystem::path& folder);

/// Returns the files that read_image_folder() reads, in its order. Throws the same errors for
/// labels and file names.
std::vector<std::filesystem::path> pictures_of_folder(const std::filesystem::path& folder);

/// Reads the PNG files of the subfolders, ordered by label and name, and scales them to one size.
/// Throws Error(kInvalidArgument), which names the folder or file, for a label that is not in
/// `classes`, a label without pictures, or a file that is not PNG. Throws as read_png() does.
LabelledImages read_image_folder(const std::filesystem::path& folder,
                                 const std::vector<std::string>& classes, int height, int width,
                                 int colours);

/// Returns the picture stretched to another size. Each pixel is the mean of the area that it
/// covers. Integer arithmetic gives the same result on every machine. Values are in row-major order
/// with `colours` (1 or 3) per pixel. Grey is 0.299 red + 0.587 green + 0.114 blue.
std::vector<std::uint8_t> resample_picture(const Picture& picture, int height, int width,
                                           int colours);

}  // namespace weft::apps
