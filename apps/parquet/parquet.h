#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::apps {

/// What names a row of a data set, and is no number of a row.
using RowId = std::variant<std::int64_t, std::string>;

/// Columns of a Parquet file by name; "": none.
struct ParquetColumns {
  std::string id = {}, vector = {}, utility = {}, neighbours = {};
};

/// A column as a file has it.
struct ParquetField {
  std::string name, type;  ///< "list<item: float>", for people.
  // What it can be read as.
  bool is_id = false;             ///< Integers of up to 64 bits, or texts.
  bool is_text = false;           ///< Of ids (its neighbours' too): texts.
  bool is_number = false;         ///< Floats, integers, decimals.
  bool is_vector = false;         ///< Lists of floats, of any or of a fixed size.
  bool is_neighbours = false;     ///< Lists of ids, or of a struct of `id` and `similarity`.
  bool has_similarities = false;  ///< Of neighbours: it is the struct.
};

/// Values of some rows of a file: of those columns that were asked for.
struct ParquetRows {
  std::size_t count = 0;
  std::vector<RowId> ids;
  std::size_t width = 0;  ///< Numbers of a vector.
  std::vector<float> vectors;
  std::vector<float> utilities;
  std::vector<std::size_t> ends;  ///< Of each row's neighbours among all of them.
  std::vector<RowId> neighbours;
  std::vector<float> similarities;  ///< Of each neighbour; empty where the file has none.
};

/// Reads a file from its beginning to its end, a part of a row group at a time, so that memory does
/// not grow with the file. One thread.
class ParquetReader {
 public:
  /// A block has so many rows at most.
  static constexpr std::size_t kRows = 4096;

  virtual ~ParquetReader() = default;
  virtual std::uint64_t num_rows() const = 0;
  virtual const std::vector<ParquetField>& fields() const = 0;
  /// Before next(), once. The file must have these columns, of the right type.
  virtual void select(const ParquetColumns& columns) = 0;
  /// The rows after the last ones; false behind all. Throws Error(kInvalidArgument), which names
  /// file, row and column, where a value is missing (null) or vectors are not of one length, and
  /// Error(kDataLoss) naming the file if it is damaged.
  virtual bool next(ParquetRows& rows) = 0;
};

/// A chosen row, as results have it.
struct ChosenParquetRow {
  RowId id;
  std::string_view path;  ///< Of its file.
  std::uint64_t row = 0;  ///< In that file.
  float utility = 0;
  std::int64_t gain = 0;
  std::uint32_t round = 0;  ///< 0: decided by bounding.
};

/// Writes a file of chosen rows: id (int64 or string), path, row, utility, gain, decided_by
/// ("bound" or "round"), round. The file is there once it is closed. One thread.
class ParquetWriter {
 public:
  virtual ~ParquetWriter() = default;
  /// All ids are of the first one's kind. Throws Error(kResourceExhausted) when the disk is full.
  virtual void append(const ChosenParquetRow& row) = 0;
  /// Throws as append().
  virtual void close() = 0;
};

/// The library that knows the format. Any thread.
class ParquetLibrary {
 public:
  virtual ~ParquetLibrary() = default;
  virtual std::string name() const = 0;  ///< "Arrow 26.0.1", for summaries.
  /// Throws Error(kNotFound), or Error(kDataLoss) if it is no such file or is cut off.
  virtual std::unique_ptr<ParquetReader> open(const std::filesystem::path& path) const = 0;
  /// Throws Error(kUnavailable) if the folder cannot be written to.
  virtual std::unique_ptr<ParquetWriter> create(const std::filesystem::path& path) const = 0;

  /// Changes with what passes between program and plugin.
  static constexpr std::uint64_t kStamp = 1;
};

/// The library of libweft_parquet.so. Opened when it is first asked for. Throws
/// Error(kFailedPrecondition), which says how to get it, where it is not there. Any thread.
const ParquetLibrary& parquet_library();
/// "": it is there; else why it is not, and how to get it.
std::string parquet_problem();

}  // namespace weft::apps
