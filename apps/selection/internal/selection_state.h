#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "apps/selection/bounding.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// State of a worker's points between the phases of a selection: files in the session's state
/// folder, read and written shard by shard. Rows count from the shard's first point. Actor's thread
/// only.
class SelectionState final {
 public:
  SelectionState(const WorkerSession& session, const SelectionSettings& settings)
      : session_(session), settings_(settings) {}

  /// Bounds after a step of bounding. Step 0 stands for the initial bounds.
  struct SavedBounds {
    int step = 0;
    PointBounds bounds;
  };
  SavedBounds read_saved_bounds(std::uint32_t shard) const;
  PointBounds read_bounds(std::uint32_t shard) const { return read_saved_bounds(shard).bounds; }
  void write_bounds(std::uint32_t shard, int step, const PointBounds& bounds) const;

  /// Returns the ascending rows that a step decided.
  std::vector<std::uint32_t> read_decisions(std::uint32_t shard, int step) const;
  /// Writes decisions, unless there are none.
  void write_decisions(std::uint32_t shard, int step, std::span<const std::uint32_t> rows) const;

  /// Returns, by row, which points a round has left in. Round 0 stands for bounding.
  std::vector<bool> remaining_points(std::uint32_t shard, std::uint32_t round) const;
  void write_remaining_points(std::uint32_t shard, std::uint32_t round,
                              const std::vector<bool>& remaining) const;
  /// Returns, by row, the points that a round has left in or that bounding has accepted. For round
  /// 0, only the latter.
  std::vector<bool> chosen_points(std::uint32_t shard, std::uint32_t round) const;

  /// Returns the gains of the points that the last round chose, by ascending row. Empty for round
  /// 0.
  std::vector<std::int64_t> read_gains(std::uint32_t shard, std::uint32_t round) const;
  void write_gains(std::uint32_t shard, std::uint32_t round,
                   std::span<const std::int64_t> gains) const;

  /// Returns the path of the spill file with the chosen points of a shard, as ResultPoint records.
  std::filesystem::path results_file(std::uint32_t shard) const {
    return session_.state_file("results", 0, shard);
  }
  /// Returns how many files of bounding (if `has_bounds`) and of a round (if not 0) are missing.
  std::uint64_t num_missing(bool has_bounds, std::uint32_t round) const;

 private:
  std::filesystem::path bounds_file(std::uint32_t shard) const {
    return session_.state_file("bounds", 0, shard);
  }
  std::filesystem::path remaining_file(std::uint32_t shard, std::uint32_t round) const {
    return session_.state_file("alive", round, shard);
  }

  const WorkerSession& session_;
  const SelectionSettings& settings_;
};

}  // namespace weft::apps
