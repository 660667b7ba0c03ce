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

/// An input as vectors and utilities on disk:
///
///   vectors.npy       float32, rows x width; a link, where the input is such a file
///   utility.npy       float32 of at least 0 for each row; not there if flat
///   neighbours.npy    int64, rows of each row's, -1 for none, and similarities.npy; where they are
///                     given
///   rows.jsonl        where each row came from (row_places.h); not there for vectors without ids
///   input.json        this, written last
///
/// A value.
struct PreparedInput {
  std::filesystem::path folder;
  InputKind kind = InputKind::kVectors;
  std::uint64_t rows = 0, width = 0;
  bool flat = true;              ///< All utilities are the same.
  bool has_ids = false;          ///< Places have what the input names rows by; see RowPlace.
  bool has_neighbours = false;   ///< They are given; there may be no vectors then, of width 0.
  std::string made_of = {};      ///< For people: "features of a coarse model (..), margins".
  std::string data_digest = {};  ///< What rows belong to, as `data.subset` checks it by.
  std::string digest = {};       ///< Of vectors and utilities.
  /// What a run that trains on chosen rows has as its `data:`; empty for what none does.
  std::string data_section = {};
  std::map<std::string, double> seconds = {};  ///< What it took, by what was done.
  std::string request = {};  ///< Of the input's files and the settings: when to make it again.
  bool was_there = false;    ///< And was not made again.

  std::filesystem::path vectors() const { return folder / "vectors.npy"; }
  std::filesystem::path utility() const { return folder / "utility.npy"; }
  std::filesystem::path neighbours() const { return folder / "neighbours.npy"; }
  std::filesystem::path similarities() const { return folder / "similarities.npy"; }
  std::filesystem::path places() const { return folder / "rows.jsonl"; }
  std::filesystem::path description() const { return folder / "input.json"; }
};

/// How far a preparation is.
struct PrepareStage {
  std::string_view what;  ///< "count words", say.
  std::uint64_t done = 0, of = 0;
};
using PrepareProgress = std::function<void(const PrepareStage&)>;

/// Turns an input into vectors and utilities in `folder`, which it makes; or finds that they are
/// there, from the same files (by path, size and time) and settings.
///
/// Pictures with labels: features of a coarse model and its margins, trained and computed on
/// `device` alone. Pictures without: pixels, less their mean, through a random matrix. Texts:
/// hashed words and pairs of them. All in blocks of fixed rows, in one thread: the same bits
/// whatever the number of workers that choose. Memory grows with the largest file, unless it is of
/// vectors; with the number of rows only where pictures have labels, or a text is cut into tokens
/// (as when training on them), or tensors are not f32.
///
/// Throws Error(kInvalidArgument) and others that name file and row and say what to do, for inputs
/// that are empty, damaged or not what they should be; Error(kCancelled) if asked to stop.
PreparedInput prepare_input(const SelectInput& input, const std::filesystem::path& folder,
                            Device& device, const PrepareProgress& progress = {},
                            const std::stop_token& stop = {});

/// What prepare_input() has left in a folder; nothing where it did not come to its end. Throws
/// Error(kDataLoss) if it is damaged.
std::optional<PreparedInput> read_prepared_input(const std::filesystem::path& folder);

}  // namespace weft::apps
