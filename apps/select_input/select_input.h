#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/classification/coarse_model.h"
#include "apps/classification/image_data_config.h"
#include "apps/data/text_data_config.h"

namespace weft::apps {

/// Pieces of a text that a GPT trains on, used as rows to choose from.
struct TextPieces {
  TextDataConfig data = {};  ///< Tokenizer and held-out share. The text is the selection's input.
  int sequence = 64;         ///< Tokens per piece.
};

/// Source of the rows, and the options of their vectors and utilities. A value.
struct SelectInput {
  /// File of vectors (.npy, .safetensors, .parquet), folder of .parquet files, folder of pictures,
  /// text file, folder of texts, or data set: "fashion-mnist", "kjv", "linux-doc".
  std::string path;
  /// Tensor of a .safetensors file, or column of Parquet files, with the vectors. If empty, there
  /// must be only one.
  std::string vector = {};
  /// "margin" (pictures with labels), "flat", a tensor or column beside the vectors, or a .npy file
  /// with a number per row. If empty, margin for labelled pictures, else flat.
  std::string utility = {};
  /// Columns of Parquet files: the rows' ids (if empty, "id" or else row numbers) and the ids of
  /// each row's neighbours (if empty, they are searched).
  std::string id = {}, neighbours = {};
  std::uint64_t seed = 1;  ///< Seed of projections.

  /// Picture options of the run that will train on the chosen rows. Path, data set and labels in it
  /// are ignored. If absent, default_image_data() for a data set, and 32 x 32 pixels in colour for
  /// a folder.
  std::optional<ImageDataConfig> images = {};
  CoarseOptions coarse = {};
  /// Text options of the run that will train on the chosen pieces. If absent, rows are parts of
  /// `words` words.
  std::optional<TextPieces> pieces = {};
  int words = 64;
  std::size_t width = 64;  ///< Width of texts' vectors: see HashedNgrams.
};

enum class InputKind : std::uint8_t { kVectors, kPictures, kTexts };

/// Returns the kind of the input at `path`: see SelectInput. Throws Error(kNotFound) if it does not
/// exist, Error(kInvalidArgument), which lists the supported kinds, if it has another kind.
InputKind kind_of_input(const std::string& path);
/// Returns "vectors", "pictures" or "texts".
std::string_view to_string(InputKind kind);

/// Returns true if the file's extension is .npy, in upper or lower case.
bool is_npy(const std::string& path);
/// Returns true for a .parquet file, or a folder in which at least half of the files are.
bool is_parquet(const std::string& path);
/// Returns the Parquet files of such an input, sorted by path, without files that engines add
/// (_SUCCESS, hidden files). Throws Error(kInvalidArgument) if there are none.
std::vector<std::filesystem::path> parquet_files(const std::string& path);

/// Size of an input, known before its rows are read. A value.
struct InputSize {
  std::uint64_t rows = 0;
  std::uint64_t width = 0;  ///< Numbers per vector. 0 if unknown or if there are no vectors.
};
/// Returns the size of an input of vectors from the headers of its files. Null for pictures and
/// texts, which are counted while they are read. Throws as prepare_input() does for unsuitable
/// files, tensors and columns.
std::optional<InputSize> size_of_input(const SelectInput& input);

/// Returns the `data:` section that reads these pictures, with the folder's labels if it has any.
ImageDataConfig image_data_of(const SelectInput& input);
/// Returns true if the pictures have labels: all are in subfolders, of which there are at least
/// two.
bool has_labels(const SelectInput& input);

}  // namespace weft::apps
