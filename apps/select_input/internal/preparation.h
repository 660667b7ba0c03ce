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
#include "apps/select_input/row_places.h"
#include "apps/selection/npy_writer.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace weft::apps {

/// One input while it is being prepared: what it needs, and what has come of it so far. One thread.
class Preparation final {
 public:
  Preparation(const SelectInput& request, Device& device_to_use, const PrepareProgress& progress,
              const std::stop_token& stop, PreparedInput& prepared);

  const SelectInput& input;
  Device& device;
  const std::stop_token& stop;
  PreparedInput& result;

  /// Tells how far it is. Throws Error(kCancelled) if asked to stop.
  void tell(std::string_view what, std::uint64_t done, std::uint64_t of) const;
  /// The time since the last call, or the beginning, went into this.
  void took(const std::string& what);

  /// Of the rows to come.
  void begin_vectors(std::size_t width);
  /// Vectors of the next rows, a block of a fixed number. One of zeros gets numbers that stand for
  /// nothing. Throws Error(kInternal) for numbers that are none.
  void append(std::span<float> vectors);
  void append_place(const RowPlace& place);
  /// All rows are there; their vectors too, unless none were begun.
  void commit_vectors();
  /// Takes the vectors as they are in a file, whose blocks have this digest.
  void link_vectors(const std::filesystem::path& file, std::uint64_t rows, std::size_t width,
                    const std::string& digest);
  /// Utilities of the next rows, a block of a fixed number; all rows' once vectors are committed.
  void append_utility(std::span<const float> utility);
  void commit_utility();
  /// By row; all of them. Throws Error(kInvalidArgument), which names `source` and the row, if one
  /// does not lie in 0 to 1.
  void write_utility(std::span<const float> utility, std::string_view source);
  /// The same from a file, block by block.
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

/// Rows of vectors that are read or made at a time.
inline constexpr std::size_t kBlockRows = 4096;

/// Throws Error(kInvalidArgument) if so many rows of so many numbers cannot be chosen from.
void check_shape(const std::string& source, std::uint64_t rows, std::uint64_t width);
/// Throws Error(kInvalidArgument), which names the row, if a vector has no direction.
void check_vectors(std::vector<float> block, std::size_t width, const std::string& source,
                   std::uint64_t first_row);
/// Names files by path, size and time of the last change.
std::string digest_of_files(std::span<const std::filesystem::path> files);

/// Makes the rows of each kind: begin_vectors() to commit_vectors(), or link_vectors(); a utility
/// of their own; and what result says of them.
void prepare_vectors(Preparation& preparation);
/// Opens the files and looks for the columns, and reads no row: gives their number. Throws
/// Error(kInvalidArgument), which names the columns there are, where one is missing or of another
/// type.
std::uint64_t rows_of_parquet(const SelectInput& input);
/// Of these, but for what result says of them.
void prepare_parquet(Preparation& preparation);
void prepare_pictures(Preparation& preparation);
void prepare_texts(Preparation& preparation);

/// Names what these read: of files and settings, before anything is made.
std::string request_of_vectors(const SelectInput& input);
std::string request_of_pictures(const SelectInput& input);
std::string request_of_texts(const SelectInput& input);

}  // namespace weft::apps
