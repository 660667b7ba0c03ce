#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/classification/coarse_model.h"
#include "apps/data/text_data_config.h"
#include "apps/images/image_data_config.h"

namespace weft::apps {

/// The pieces of a text that a GPT trains on, as the rows to choose from.
struct TextPieces {
  TextDataConfig data =
      {};             ///< Its tokenizer and what is held out; the text is the selection's input.
  int sequence = 64;  ///< Tokens of a piece.
};

/// What is chosen from, and how it becomes vectors and utilities. A value.
struct SelectInput {
  /// A file of vectors (.npy, .safetensors, .parquet) or a folder of .parquet files, a folder of
  /// pictures, a text file or a folder of them, or a data set by name: "fashion-mnist", "kjv",
  /// "linux-doc".
  std::string path;
  /// The tensor of a .safetensors file, or the column of Parquet files, that has the vectors;
  /// empty: the only one.
  std::string vector = {};
  /// "margin" (of pictures with labels), "flat", the name of a tensor or column beside the vectors,
  /// or a .npy file of a number for each row; empty: margin where there are labels, else flat.
  std::string utility = {};
  /// Columns of Parquet files: what names rows (empty: "id", or else rows have numbers), and the
  /// neighbours of each, by these names (empty: they are found).
  std::string id = {}, neighbours = {};
  std::uint64_t seed = 1;  ///< Of projections.

  /// Pictures, as the run that will train on the chosen ones reads them; nothing:
  /// default_image_data() of the name, and of a folder 32 x 32 pixels in colours. Path, data set
  /// and labels in it are not looked at.
  std::optional<ImageDataConfig> images = {};
  CoarseOptions coarse = {};
  /// Texts, as the run that will train on the chosen pieces reads them; nothing: rows of `words`.
  std::optional<TextPieces> pieces = {};
  int words = 64;
  std::size_t width = 64;  ///< Numbers of a text's vector: see HashedNgrams.
};

enum class InputKind : std::uint8_t { kVectors, kPictures, kTexts };

/// Of what lies at `path`: see SelectInput. Throws Error(kNotFound) if nothing does, and
/// Error(kInvalidArgument), which says what can be read, if it is none of these.
InputKind kind_of_input(const std::string& path);
/// "vectors", "pictures" or "texts".
std::string_view to_string(InputKind kind);

/// Whether the name is that of a .npy file, in upper or lower case.
bool is_npy(const std::string& path);
/// Whether these are Parquet files: the file, or the most of a folder's.
bool is_parquet(const std::string& path);
/// Of such an input: its files by path, without what engines put beside them (_SUCCESS, hidden
/// ones). Throws Error(kInvalidArgument) if there are none.
std::vector<std::filesystem::path> parquet_files(const std::string& path);

/// What an input's files say of it before a row is read. A value.
struct InputSize {
  std::uint64_t rows = 0;
  std::uint64_t width = 0;  ///< Numbers of a vector; 0: not known, or there are no vectors.
};
/// Of vectors, from the beginnings or ends of their files; nothing of pictures and texts, which are
/// counted as they are read. Throws what prepare_input() throws for files, tensors and columns that
/// are not what they should be.
std::optional<InputSize> size_of_input(const SelectInput& input);

/// The `data:` section that reads these pictures. Labels are those of the folder, if it has some.
ImageDataConfig image_data_of(const SelectInput& input);
/// Whether the pictures have labels: all lie in subfolders, of which there are at least two.
bool has_labels(const SelectInput& input);

}  // namespace weft::apps
