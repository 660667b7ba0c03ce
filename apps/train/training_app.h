#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/run_files/run_summary.h"
#include "apps/train/trained_values.h"
#include "core/config/config_node.h"
#include "core/device/device.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// Division of a step's batch.
struct BatchShape {
  /// Size of the first dimension of the model's inputs: sequences or pictures.
  std::int64_t rows_per_microbatch = 1;
  std::int64_t microbatches = 1;
};

/// Model as its configuration describes it. Made without access to data or devices.
struct ModelDescription {
  /// Graphs of one microbatch. The losses of all microbatches of a step add up to the mean.
  mesh::ModelGraphs graphs;
  std::string text;  ///< Description for users: "4 layers, width 128, 4 heads, sequence 64".
  /// Description of the data for users, before the data is opened: "kjv, bpe, 1024 pieces".
  std::string data = {};
  std::int64_t units_per_row = 1;  ///< Units per row in throughput such as "30,132 tokens/s".
  std::string unit = "tokens";
};

/// Arguments of an app's final report. Borrows all of them for the call.
struct ReportRequest {
  Device& device;  ///< Device to compute on; may be a GPU.
  const TrainedValues& trained;
  const std::filesystem::path& folder;  ///< Folder of the run, for further files.
  /// Requests an early end: return a partial report or throw Error(kCancelled).
  std::stop_token stop = {};
};

/// Description of a model's data, ready to be read.
struct PreparedData {
  std::string text;                ///< Description for users: "the King James Version, 1.2 M
                                   ///< tokens".
  std::vector<std::byte> batches;  ///< Argument of open_batches() in any process of this
                                   ///< executable.
  std::string digest;              ///< Hash of everything that must not change when a run is
                                   ///< resumed.
  Baseline baseline = {};          ///< Loss of a trivial predictor, for comparison.
  /// Makes the final report of the trained model. Called again on another device after a failure.
  /// May be empty.
  std::function<FinalReport(const ReportRequest&)> report_on_model = {};
  /// Argument of prepare_after_restart(). If empty, a restarted driver calls prepare_data().
  std::vector<std::byte> restart_data = {};
};

/// Training application: a model, its data, and the sections of the run file that describe them.
/// serve_training() does the rest, from the command line to checkpoints. Used by one thread at a
/// time.
class TrainingApp {
 public:
  virtual ~TrainingApp() = default;
  virtual std::string name() const = 0;
  /// Reads and finishes the app's own sections of the run file. Called before prepare_data(), in
  /// drivers, checks and plans. May be called again with other rows; the last call counts. Throws
  /// Error(kInvalidConfig), and the error of a graph that is too large.
  virtual ModelDescription describe_model(const ConfigNode& root, const BatchShape& batch,
                                          std::uint64_t seed) = 0;
  /// Finds or makes the data. Called in the driver only.
  virtual PreparedData prepare_data() = 0;
  /// Prepares the data in a restarted driver, from PreparedData::restart_data of the first driver,
  /// so that later changes of the source have no effect. Calls prepare_data() by default.
  virtual PreparedData prepare_after_restart(std::span<const std::byte> /*restart_data*/) {
    return prepare_data();
  }
  /// Opens the data in a device process, from PreparedData::batches.
  virtual std::unique_ptr<mesh::BatchSource> open_batches(
      std::span<const std::byte> batches) const = 0;
};

}  // namespace weft::apps
