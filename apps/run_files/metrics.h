#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {

/// What one training step came to: a line of metrics.jsonl. A value.
struct StepMetrics {
  std::int64_t step = 0;  ///< Counts from 1.
  double loss = 0;        ///< Nats, mean over the step's tokens or pixels.
  double grad_norm = 0;   ///< Before clipping.
  /// The gradients were not finite, and the step has changed nothing.
  bool update_skipped = false;
  double learning_rate = 0;
  double seconds = 0;  ///< Wall time of the step at the driver.
  /// How long training stood still for checkpoints between the step before and this one.
  double checkpoint_seconds = 0;
  std::string unit = "tokens";  ///< What the model learns from, counted: "tokens", "slices".
  double units_per_second = 0;
  /// Mean over devices: time in which a transfer was under way.
  double transfer_seconds = 0;
  /// Mean over devices: the part of it in which compute stood still.
  double exposed_transfer_seconds = 0;
  std::uint64_t resharded_bytes = 0;  ///< Between meshes.
  std::optional<double> validation_loss;

  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

/// One JSON object, without a line end. Numbers come back exactly.
std::string to_json_line(const StepMetrics& metrics);

/// All whole lines of a metrics file; a last line that a crash cut off is left out. No file is no
/// metrics. Throws Error(kDataLoss) naming the line if another one is damaged.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

/// Copies a metrics file, on the disk when it returns; a crash leaves no half of it. Throws
/// Error(kUnavailable).
void copy_metrics(const std::filesystem::path& from, const std::filesystem::path& to);

/// metrics.jsonl being written: each line is with the kernel when append() returns. One thread at a
/// time.
///
/// A disk that refuses costs no line while this object lives, or the file in memory that it was
/// given: lines are held back, and written with the next one for which there is room.
class MetricsFile {
 public:
  /// For a run that starts, or goes on after `steps_done` steps: as go_back(). `refused`: a file in
  /// the memory of another process, which has a copy of the lines held back, also those of the
  /// process before this one; empty: none. Throws Error(kDataLoss) as read_metrics() does.
  MetricsFile(std::filesystem::path path, std::int64_t steps_done,
              const std::filesystem::path& refused = {});
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  /// Drops the lines after `steps_done` steps, for those steps come again. Where the disk refuses,
  /// problem() says so.
  void go_back(std::int64_t steps_done);
  /// Why lines are held back; nothing when the file has all lines.
  const std::optional<Error>& problem() const { return problem_; }

  /// Throws Error(kUnavailable) when the disk refuses. The step counts in steps() all the same, and
  /// its line is tried again with the next one: the file has whole lines only, and when there is
  /// room again no line is missing.
  void append(const StepMetrics& metrics);
  /// Writes what is held back, then flushes: all lines are on the disk when it returns, as a
  /// checkpoint that refers to their steps needs. Throws Error(kUnavailable).
  void flush();
  /// All steps from step 1 on, also those whose lines are held back.
  const std::vector<StepMetrics>& steps() const { return steps_; }

 private:
  void open();
  void open_another();
  void open_as_it_is();
  void write_held_back();
  void copy_held_back();
  void close();

  std::filesystem::path path_;
  std::vector<StepMetrics> steps_;
  int fd_ = -1;            ///< -1: the file could not be opened yet.
  std::int64_t size_ = 0;  ///< Bytes of the whole lines in the file.
  std::string unwritten_;  ///< Lines that the disk has refused.
  int refused_ = -1;       ///< Has a copy of these; -1: nobody wants one.
  std::size_t copied_ = 0;
  std::optional<Error> problem_;
};

}  // namespace weft::apps
