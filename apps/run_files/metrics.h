#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {

/// Results of one training step: a line of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;  ///< Step number, counted from 1.
  double loss = 0;        ///< Mean over the step's tokens or pixels, in nats.
  double grad_norm = 0;   ///< Norm before clipping.
  /// True if the update was skipped because the gradients were not finite.
  bool update_skipped = false;
  double learning_rate = 0;
  double seconds = 0;  ///< Wall time of the step at the driver.
  /// Seconds that training paused for checkpoints between the previous step and this one.
  double checkpoint_seconds = 0;
  std::string unit = "tokens";  ///< Unit of throughput: "tokens", "slices".
  double units_per_second = 0;
  /// Mean over devices: seconds with a transfer in progress.
  double transfer_seconds = 0;
  /// Mean over devices: seconds with a transfer in progress and idle compute.
  double exposed_transfer_seconds = 0;
  std::uint64_t resharded_bytes = 0;  ///< Bytes sent between meshes.
  std::optional<double> validation_loss;

  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

/// Returns one JSON object, without a line end. Numbers survive the round trip exactly.
std::string to_json_line(const StepMetrics& metrics);

/// Reads all complete lines of a metrics file. Ignores an incomplete last line, which a crash may
/// leave. Returns nothing if the file does not exist. Throws Error(kDataLoss) with the line number
/// if another line is damaged.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

/// Copies a metrics file and flushes the copy to disk. A crash leaves no partial copy. Throws
/// Error(kUnavailable).
void copy_metrics(const std::filesystem::path& from, const std::filesystem::path& to);

/// Writer of metrics.jsonl. append() passes its line to the kernel before it returns. Used by one
/// thread at a time.
///
/// Lines that the disk refuses are held back, and written with the next line for which there is
/// room. They are kept in this object and, if given, in the `refused` file in memory.
class MetricsFile {
 public:
  /// Opens the file of a run after `steps_done` steps, as rollback() does. `refused` is a file in
  /// the memory of another process with a copy of held-back lines, also those of an earlier
  /// process; empty: none. Throws Error(kDataLoss) as read_metrics() does.
  MetricsFile(std::filesystem::path path, std::int64_t steps_done,
              const std::filesystem::path& refused = {});
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  /// Drops the lines after `steps_done` steps, since those steps are repeated. Sets write_error()
  /// if the disk refuses.
  void rollback(std::int64_t steps_done);
  /// Reason why lines are held back; nullopt if the file has all lines.
  const std::optional<Error>& write_error() const { return write_error_; }

  /// Adds a step and writes its line. Throws Error(kUnavailable) if the disk refuses. The step is
  /// in steps() even then, and its line is retried with the next one. The file has complete lines
  /// only.
  void append(const StepMetrics& metrics);
  /// Writes held-back lines and flushes the file to disk. Required before a checkpoint that refers
  /// to these steps. Throws Error(kUnavailable).
  void flush();
  /// All steps from step 1 on, including those whose lines are held back.
  const std::vector<StepMetrics>& steps() const { return steps_; }

 private:
  void open();
  void rewrite_file();
  void truncate_in_place();
  void write_pending();
  void mirror_pending();
  void close();

  std::filesystem::path path_;
  std::vector<StepMetrics> steps_;
  int fd_ = -1;                ///< -1 if the file could not be opened yet.
  std::int64_t size_ = 0;      ///< Bytes of the complete lines in the file.
  std::string pending_lines_;  ///< Lines that the disk has refused.
  int mirror_fd_ = -1;         ///< Descriptor of a file with a copy of `pending_lines_`; -1: none.
  std::size_t copied_ = 0;
  std::optional<Error> write_error_;
};

}  // namespace weft::apps
