#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/plugin_stamp.h"

namespace weft::apps {

/// Id of a row, as the data set gives it: an integer or a text, not a row number.
using RowId = std::variant<std::int64_t, std::string>;

/// Names of the columns to read from a Parquet file. "" if a column is not read.
struct ParquetColumns {
  std::string id = {}, vector = {}, utility = {}, neighbours = {};
};

/// Description of a column of a file.
struct ParquetField {
  std::string name, type;  ///< `type` is Arrow's text for users: "list<item: float>".
  // Roles that the column's type allows.
  bool is_id = false;             ///< Integers of up to 64 bits, or texts.
  bool is_text = false;           ///< True if the ids (or the neighbours' ids) are texts.
  bool is_number = false;         ///< Floats, integers or decimals.
  bool is_vector = false;         ///< Lists of floats, of variable or fixed size.
  bool is_neighbours = false;     ///< Lists of ids, or of structs of `id` and `similarity`.
  bool has_similarities = false;  ///< True if the neighbours are such structs.
};

/// Values of a block of rows. Columns that were not selected are empty.
struct ParquetRows {
  std::size_t count = 0;
  std::vector<RowId> ids;
  std::size_t width = 0;  ///< Numbers per vector.
  std::vector<float> vectors;
  std::vector<float> utilities;
  std::vector<std::size_t> ends;  ///< End of each row's neighbours in `neighbours`.
  std::vector<RowId> neighbours;
  std::vector<float> similarities;  ///< Similarity of each neighbour. Empty if absent.
};

/// Sequential reader of a file. It reads a part of a row group at a time, so that memory does not
/// grow with the file. Not thread-safe.
class ParquetReader {
 public:
  /// Maximum number of rows in a block.
  static constexpr std::size_t kRows = 4096;

  virtual ~ParquetReader() = default;
  virtual std::uint64_t num_rows() const = 0;
  virtual const std::vector<ParquetField>& fields() const = 0;
  /// Sets the columns to read. Call once, before next(). The file must have these columns, of the
  /// right types.
  virtual void select(const ParquetColumns& columns) = 0;
  /// Reads the next block of rows. Returns false at the end of the file. Throws
  /// Error(kInvalidArgument), which names file, row and column, if a value is missing (null) or the
  /// vectors differ in length. Throws Error(kDataLoss), which names the file, if it is damaged.
  virtual bool next(ParquetRows& rows) = 0;
};

/// Chosen row, as the result files list it.
struct ChosenParquetRow {
  RowId id;
  std::string_view path;  ///< Path of the row's file.
  std::uint64_t row = 0;  ///< Row number in that file.
  float utility = 0;
  std::int64_t gain = 0;
  std::uint32_t round = 0;  ///< 0 if bounding decided the row.
};

/// Writer of a file of chosen rows, with the columns id (int64 or string), path, row, utility,
/// gain, decided_by ("bound" or "round") and round. The file appears under its name at close(). Not
/// thread-safe.
class ParquetWriter {
 public:
  virtual ~ParquetWriter() = default;
  /// Appends a row. All ids must be of the first one's kind. Throws Error(kResourceExhausted) if
  /// the disk is full.
  virtual void append(const ChosenParquetRow& row) = 0;
  /// Finishes the file and renames it to its final name. Throws as append() does.
  virtual void close() = 0;
};

/// Interface of the Parquet library. Callable from any thread.
class ParquetLibrary {
 public:
  virtual ~ParquetLibrary() = default;
  virtual std::string name() const = 0;  ///< "Arrow 26.0.1", for summaries.
  /// Opens a file. Throws Error(kNotFound) if it cannot be opened, Error(kDataLoss) if it is not a
  /// Parquet file or is truncated.
  virtual std::unique_ptr<ParquetReader> open(const std::filesystem::path& path) const = 0;
  /// Creates a file. Throws Error(kUnavailable) if the folder is not writable.
  virtual std::unique_ptr<ParquetWriter> create(const std::filesystem::path& path) const = 0;

  // Arguments of open_plugin().
  static constexpr const char* kFile = "libweft_parquet.so";
  static constexpr const char* kEntry = "weft_parquet_plugin";
  static constexpr std::uint64_t stamp() {
    return plugin_stamp(2, {sizeof(ParquetField), sizeof(ParquetRows), sizeof(ChosenParquetRow)});
  }
};

/// Returns the library of libweft_parquet.so, opened at the first call. Throws
/// Error(kFailedPrecondition), which says how to install the library, if it is missing. Callable
/// from any thread.
const ParquetLibrary& parquet_library();
/// Returns "" if the library is available, else the reason and how to install the library.
std::string parquet_problem();

}  // namespace weft::apps
