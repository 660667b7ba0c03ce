#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apps/select_input/prepare_input.h"
#include "apps/select_input/row_origin.h"
#include "apps/selection/npy_writer.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace weft::apps {

/// State of an input's preparation: its options and the result so far. Not thread-safe.
class Preparation final {
 public:
  Preparation(const SelectInput& request, Device& device_to_use, const PrepareProgress& progress,
              const std::stop_token& stop, PreparedInput& prepared);

  const SelectInput& input;
  Device& device;
  const std::stop_token& stop;
  PreparedInput& result;

  /// Reports progress. Throws Error(kCancelled) if `stop` is requested.
  void report_progress(std::string_view what, std::uint64_t done, std::uint64_t of) const;
  /// Adds the time since the previous call (or the beginning) to the total of `what`.
  void record_duration(const std::string& what);

  /// Begins the file of vectors.
  void begin_vectors(std::size_t width);
  /// Appends the vectors of the next rows, a block of a fixed number. Replaces zero vectors by a
  /// fixed sign vector. Throws Error(kInternal) for numbers that are not finite.
  void append(std::span<float> vectors);
  void append_place(const RowOrigin& place);
  /// Finishes the rows and, if begun, their vectors.
  void commit_vectors();
  /// Links a file as the file of vectors. `digest` is that of its blocks.
  void link_vectors(const std::filesystem::path& file, std::uint64_t rows, std::size_t width,
                    const std::string& digest);
  /// Appends the utilities of the next rows, a block of a fixed number. Call commit_utility() after
  /// commit_vectors().
  void append_utility(std::span<const float> utility);
  void commit_utility();
  /// Writes the utilities of all rows. Throws Error(kInvalidArgument), which names `source` and the
  /// row, if one is not between 0 and 1.
  void write_utility(std::span<const float> utility, std::string_view source);
  /// Copies the utilities of all rows from a file, block by block. Throws as write_utility() does.
  void copy_utility(const std::filesystem::path& file);

 private:
  void append_checked(std::span<const float> utility, std::string_view source);

  const PrepareProgress& progress_;
  const SteadyClock clock_;
  TimePoint mark_;
  std::optional<NpyWriter> vectors_, utility_;
  std::ofstream places_;
  std::uint64_t num_places_ = 0;
};

/// Rows of a block of vectors.
inline constexpr std::size_t kBlockRows = 4096;

/// Throws Error(kInvalidArgument) if rows or width are out of range.
void check_shape(const std::string& source, std::uint64_t rows, std::uint64_t width);
/// Throws Error(kInvalidArgument), which names the row, if a vector is zero or not finite.
void require_valid_vectors(std::vector<float> block, std::size_t width, const std::string& source,
                           std::uint64_t first_row);
/// Returns a digest of the files' paths, sizes and modification times.
std::string digest_of_files(std::span<const std::filesystem::path> files);

/// Prepares an input of one kind: vectors (begin_vectors() to commit_vectors(), or link_vectors()),
/// the utilities that the input has, and the fields of `result`.
void prepare_vectors(Preparation& preparation);
/// Returns the number of rows after opening the files and checking the columns, without reading
/// rows. Throws Error(kInvalidArgument), which lists the existing columns, if one is missing or has
/// another type.
std::uint64_t rows_of_parquet(const SelectInput& input);
/// Prepares Parquet files, without the descriptive fields of `result`.
void prepare_parquet(Preparation& preparation);
void prepare_pictures(Preparation& preparation);
void prepare_texts(Preparation& preparation);

/// Return a text that identifies the files and settings of an input, before anything is prepared.
std::string request_of_vectors(const SelectInput& input);
std::string request_of_pictures(const SelectInput& input);
std::string request_of_texts(const SelectInput& input);

}  // namespace weft::apps
