#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "apps/select_input/select_input.h"
#include "core/device/device.h"

namespace weft::apps {

/// Input converted to vectors and utilities on disk:
///
///   vectors.npy       float32, rows x width; a symlink if the input is such a file
///   utility.npy       float32 of at least 0 per row; absent if flat
///   neighbours.npy    int64, row numbers of each row's neighbours, -1 for none; similarities.npy;
///                     both only if the input has neighbours
///   rows.jsonl        origin of each row (row_origin.h); absent for vectors without ids
///   input.json        this object, written last
///
/// A value.
struct PreparedInput {
  std::filesystem::path folder;
  InputKind kind = InputKind::kVectors;
  std::uint64_t rows = 0, width = 0;
  bool has_uniform_utility = true;  ///< True if all utilities are equal.
  bool has_ids = false;             ///< True if places have the input's row ids: see RowOrigin.
  bool has_neighbours = false;      ///< True if the input has neighbours. `width` may then be 0.
  std::string provenance = {};      ///< Text for users: "features of a coarse model (..), margins".
  std::string data_digest = {};     ///< Digest of the data set, which `data.subset` checks.
  std::string digest = {};          ///< Digest of vectors and utilities.
  /// `data:` section of a run that trains on the chosen rows. Empty if no app can.
  std::string data_section = {};
  std::map<std::string, double> seconds = {};  ///< Durations by activity.
  /// Digest of the input's files and settings. Prepared again if it differs.
  std::string request_digest = {};
  bool was_reused = false;  ///< True if found on disk, not prepared again.

  std::filesystem::path vectors() const { return folder / "vectors.npy"; }
  std::filesystem::path utility() const { return folder / "utility.npy"; }
  std::filesystem::path neighbours() const { return folder / "neighbours.npy"; }
  std::filesystem::path similarities() const { return folder / "similarities.npy"; }
  std::filesystem::path places() const { return folder / "rows.jsonl"; }
  std::filesystem::path description() const { return folder / "input.json"; }
};

/// Progress of a preparation.
struct PrepareStage {
  std::string_view what;  ///< Activity, such as "count words".
  std::uint64_t done = 0, of = 0;
};
using PrepareProgress = std::function<void(const PrepareStage&)>;

/// Converts an input to vectors and utilities in `folder`, which it creates. Reuses the folder's
/// content if it is from the same files (by path, size and time) and settings.
///
/// Labelled pictures become features and margins of a coarse model, trained and computed on
/// `device` alone. Other pictures become centred pixels through a random matrix. Texts become
/// hashed words and pairs of words. Rows are computed in fixed blocks in one thread, so that the
/// bits do not depend on the number of workers. Memory grows with the largest file, unless it holds
/// vectors. It grows with the number of rows only for labelled pictures, for texts cut into tokens,
/// and for tensors that are not f32.
///
/// Throws Error(kInvalidArgument) and others for empty, damaged or unsuitable inputs; messages name
/// file, row and remedy. Throws Error(kCancelled) if `stop` is requested.
PreparedInput prepare_input(const SelectInput& input, const std::filesystem::path& folder,
                            Device& device, const PrepareProgress& progress = {},
                            const std::stop_token& stop = {});

/// Reads the result of prepare_input() from a folder. Null if it was not completed. Throws
/// Error(kDataLoss) if it is damaged.
std::optional<PreparedInput> read_prepared_input(const std::filesystem::path& folder);

}  // namespace weft::apps
