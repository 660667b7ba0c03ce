#include "apps/select_input/select_input.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <vector>

#include "apps/classification/image_folder.h"
#include "apps/data/text_files.h"
#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr int kFolderPixels = 32;  // width and height
constexpr double kFolderTestFraction = 0.1;
constexpr std::string_view kParquet = ".parquet";
constexpr std::array kPictures = {".png",  ".jpg", ".jpeg", ".gif", ".bmp",
                                  ".webp", ".tif", ".tiff", ".ppm", ".pgm"};

std::string extension_of(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

/// Returns the kind of at least half of the files. Files of another kind are rejected when read.
InputKind kind_of_folder(const fs::path& folder) {
  const std::vector<fs::path> files = files_in(folder);
  if (extension_of(folder) == kParquet) return InputKind::kVectors;
  const auto of_vectors = std::ranges::count_if(
      files, [](const fs::path& path) { return extension_of(path) == kParquet; });
  if (2 * of_vectors >= std::ssize(files)) return InputKind::kVectors;
  const auto pictures = std::ranges::count_if(files, [](const fs::path& path) {
    return std::ranges::find(kPictures, extension_of(path)) != kPictures.end();
  });
  return 2 * pictures >= std::ssize(files) ? InputKind::kPictures : InputKind::kTexts;
}

InputKind kind_of_file(const fs::path& path) {
  const std::string extension = extension_of(path);
  if (extension == ".npy" || extension == ".safetensors" || extension == kParquet)
    return InputKind::kVectors;
  if (extension == ".txt" || extension == ".md" || extension == ".rst" || extension == ".gz" ||
      extension.empty())
    return InputKind::kTexts;
  throw_error(ErrorCode::kInvalidArgument,
              "{} cannot be chosen from: give vectors as .npy, .safetensors or .parquet, a text as "
              ".txt, or "
              "the folder of texts or PNG pictures",
              path.string());
}

}  // namespace

InputKind kind_of_input(const std::string& path) {
  if (path == "fashion-mnist") return InputKind::kPictures;
  if (path == "kjv" || path == "linux-doc") return InputKind::kTexts;
  if (fs::is_directory(path)) return kind_of_folder(path);
  if (fs::is_regular_file(path)) return kind_of_file(path);
  throw_error(ErrorCode::kNotFound,
              "there is no file or folder {}; data sets with a name are fashion-mnist, kjv and "
              "linux-doc",
              path);
}

bool is_npy(const std::string& path) { return extension_of(path) == ".npy"; }

bool is_parquet(const std::string& path) {
  // Folders may have the extension too, as Spark's do.
  if (fs::is_directory(path)) return kind_of_folder(path) == InputKind::kVectors;
  return extension_of(path) == kParquet;
}

std::vector<fs::path> parquet_files(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files = files_in(path);
  std::erase_if(files, [](const fs::path& file) {
    return extension_of(file) != kParquet || file.filename().string().starts_with('_');
  });
  if (files.empty())
    throw_error(ErrorCode::kInvalidArgument, "{} has no .parquet files to choose from", path);
  return files;
}

std::string_view to_string(InputKind kind) {
  return kind == InputKind::kVectors    ? "vectors"
         : kind == InputKind::kPictures ? "pictures"
                                        : "texts";
}

ImageDataConfig image_data_of(const SelectInput& input) {
  ImageDataConfig data = input.images.value_or(default_image_data());
  if (input.path == "fashion-mnist") return data;
  if (!input.images) {
    data.height = data.width = kFolderPixels;
    data.colours = 3;
    data.test_fraction = kFolderTestFraction;
  }
  data.dataset = "";
  data.files = "";
  data.path = input.path;
  data.classes.clear();
  if (has_labels(input)) data.classes = labels_of_folder(input.path);
  return data;
}

bool has_labels(const SelectInput& input) {
  if (input.path == "fashion-mnist") return true;
  int subfolders = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(input.path)) {
    if (entry.path().filename().string().starts_with('.')) continue;
    if (!entry.is_directory()) return false;
    ++subfolders;
  }
  return subfolders > 1;
}

}  // namespace weft::apps
