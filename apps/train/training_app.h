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

/// How a step's batch is cut.
struct BatchShape {
  /// Sequences, pictures: what the first dimension of the model's inputs counts.
  std::int64_t rows_per_microbatch = 1;
  std::int64_t microbatches = 1;
};

/// A model as its configuration describes it. Made without touching data or devices.
struct ModelDescription {
  /// For one microbatch; the losses of all microbatches of a step add up to the mean.
  mesh::ModelGraphs graphs;
  std::string text;  ///< For people: "4 layers, width 128, 4 heads, sequence 64".
  /// For people: what it will learn from, which nobody has looked at yet: "kjv, bpe, 1024 pieces".
  std::string data = {};
  std::int64_t units_per_row = 1;  ///< For "30,132 tokens/s".
  std::string unit = "tokens";
};

/// What an app shows its trained model with. Borrows all of it for the call.
struct ShowRequest {
  Device& device;  ///< To compute on; may be a GPU.
  const TrainedValues& trained;
  const std::filesystem::path& folder;  ///< The run's, for files that people may like.
  /// Nobody waits for it any more: end with what there is, or throw Error(kCancelled).
  std::stop_token stop = {};
};

/// A model's data, ready to be read.
struct PreparedData {
  std::string text;                ///< For people: "the King James Version, 1.2 M tokens".
  std::vector<std::byte> batches;  ///< What open_batches() takes, in any process of this binary.
  std::string digest;              ///< Hash of what must not change when a run is resumed.
  Baseline baseline = {};          ///< What the model has to beat.
  /// What the trained model can do. Called again, on another device, if one fails. May be empty.
  std::function<FinalReport(const ShowRequest&)> show = {};
  /// What prepare_again() takes; empty: a driver that is started again calls prepare().
  std::vector<std::byte> kept = {};
};

/// An app of this library: its model, its data, and the sections of the run file that describe
/// them. Everything else, from the command line to checkpoints, is serve_training()'s. Made in
/// main; one thread at a time.
class TrainingApp {
 public:
  virtual ~TrainingApp() = default;
  virtual std::string name() const = 0;
  /// Reads the app's own sections of the run file's root; finishes them. Called before prepare(),
  /// in drivers, checks and plans; a second time, with other rows, only after the first has thrown
  /// kInvalidArgument. Throws Error(kInvalidConfig), and what a graph throws that is too large.
  virtual ModelDescription read(const ConfigNode& root, const BatchShape& batch,
                                std::uint64_t seed) = 0;
  /// Finds or makes the data. In the driver only.
  virtual PreparedData prepare() = 0;
  /// The same in a driver that was started again: from PreparedData::kept of the first driver, so
  /// that a change of the source in between has no effect. By default prepare().
  virtual PreparedData prepare_again(std::span<const std::byte> /*kept*/) { return prepare(); }
  /// In device processes, where nothing was read: from what prepare() said.
  virtual std::unique_ptr<mesh::BatchSource> open_batches(
      std::span<const std::byte> batches) const = 0;
};

}  // namespace weft::apps
