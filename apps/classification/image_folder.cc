#include "apps/classification/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "apps/data/png_reader.h"
#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Returns the entries of a folder that are not hidden, sorted by name.
std::vector<fs::path> entries(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw_error(ErrorCode::kNotFound,
                "there is no folder {}; name one that has a subfolder of PNG files for each label",
                folder.string());
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

bool is_png(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" && fs::is_regular_file(path);
}

/// Source pixels that one target pixel covers, when an axis of `from` pixels is scaled to `to`.
struct PixelSpan {
  std::int64_t first = 0;                   ///< First source pixel.
  std::vector<std::uint32_t> weights = {};  ///< Parts covered of it and the next pixels, in 1 / to
                                            ///< pixel.
};

std::vector<PixelSpan> covers(std::int64_t from, std::int64_t to) {
  std::vector<PixelSpan> result;
  for (std::int64_t i = 0; i < to; ++i) {
    PixelSpan cover{.first = i * from / to};
    for (std::int64_t j = cover.first; j * to < (i + 1) * from; ++j) {
      cover.weights.push_back(std::min((j + 1) * to, (i + 1) * from) - std::max(j * to, i * from));
    }
    result.push_back(std::move(cover));
  }
  return result;
}

std::uint32_t value_of(Colour colour, int channel, int colours) {
  if (colours == 1)
    return (299u * colour.red + 587u * colour.green + 114u * colour.blue + 500u) / 1000u;
  return channel == 0 ? colour.red : channel == 1 ? colour.green : colour.blue;
}

}  // namespace

std::vector<std::string> labels_of_folder(const fs::path& folder) {
  std::vector<std::string> labels;
  for (const fs::path& path : entries(folder)) {
    if (!fs::is_directory(path))
      throw_error(ErrorCode::kInvalidArgument,
                  "{} is not in a subfolder: put each picture into a subfolder of {} that is named "
                  "after its label",
                  path.string(), folder.string());
    labels.push_back(path.filename().string());
  }
  if (labels.size() < 2)
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} subfolders; it needs one for each label, and two at least",
                folder.string(), labels.size());
  return labels;
}

std::vector<std::uint8_t> resample_picture(const Picture& picture, int height, int width,
                                           int colours) {
  const std::vector<PixelSpan> rows = covers(picture.height(), height);
  const std::vector<PixelSpan> columns = covers(picture.width(), width);
  const std::uint64_t area = std::uint64_t(picture.height()) * picture.width();
  std::vector<std::uint8_t> values;
  values.reserve(rows.size() * columns.size() * colours);
  for (const PixelSpan& row : rows) {
    for (const PixelSpan& column : columns) {
      for (int channel = 0; channel < colours; ++channel) {
        std::uint64_t sum = area / 2;  // half of the area, so that the division rounds to the
                                       // nearest
        for (std::size_t p = 0; p < row.weights.size(); ++p) {
          for (std::size_t q = 0; q < column.weights.size(); ++q) {
            const Colour colour = picture.at(column.first + q, row.first + p);
            sum += std::uint64_t{row.weights[p]} * column.weights[q] *
                   value_of(colour, channel, colours);
          }
        }
        values.push_back(static_cast<std::uint8_t>(sum / area));
      }
    }
  }
  return values;
}

std::vector<fs::path> pictures_of_folder(const fs::path& folder) {
  std::vector<fs::path> pictures;
  for (const std::string& label : labels_of_folder(folder)) {
    const std::size_t before = pictures.size();
    for (const fs::path& path : entries(folder / label)) {
      if (!is_png(path))
        throw_error(ErrorCode::kInvalidArgument,
                    "{} is not a PNG file: convert it, or move it out of the folder",
                    path.string());
      pictures.push_back(path);
    }
    if (pictures.size() == before)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has no pictures: put PNG files there, or remove the folder",
                  (folder / label).string());
  }
  return pictures;
}

LabelledImages read_image_folder(const fs::path& folder, const std::vector<std::string>& classes,
                                 int height, int width, int colours) {
  LabelledImages images{.height = height, .width = width, .colours = colours};
  for (const std::string& label : labels_of_folder(folder)) {
    if (std::ranges::find(classes, label) == classes.end())
      throw_error(
          ErrorCode::kInvalidArgument,
          "{} is not among the labels of this data set ({}): put the same folder on all hosts",
          (folder / label).string(), fmt::join(classes, ", "));
  }
  for (const fs::path& path : pictures_of_folder(folder)) {
    const auto label = std::ranges::find(classes, path.parent_path().filename().string());
    images.append(resample_picture(read_png(path), height, width, colours),
                  label - classes.begin());
  }
  return images;
}

}  // namespace weft::apps
