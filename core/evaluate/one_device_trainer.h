#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/evaluate/evaluation.h"

namespace weft {

/// Result of one training step.
struct TrainingReport {
  double loss = 0;
  double gradient_norm = 0;  ///< Norm before clipping. If it is not finite, the update was skipped.
  /// Index of the first parameter with a gradient that is not finite; null if all are finite.
  std::optional<std::size_t> first_nonfinite_parameter = {};
};

/// Trains a graph on one device with AdamW. Reference for every distributed run of the same graph.
///
/// For a bf16 parameter the graph reads a rounded copy of the f32 value kept here with the moments.
/// Sums have a fixed order: gradients and losses by microbatch index (losses in double), then the
/// terms of a shared parameter's gradient; the squared norm in double, over parameters in the
/// graph's order. Not thread-safe.
class OneDeviceTrainer final {
 public:
  OneDeviceTrainer(Device& device, TrainingGraph graph, std::uint64_t seed);

  /// Writes the inputs of one microbatch into the evaluation.
  using Feed = std::function<void(int microbatch, Evaluation& evaluation)>;
  /// Runs one step: forward and backward of each microbatch, clipping to `clip_norm` (0: none),
  /// update. Skips the update if the gradient norm is not finite; the step still counts.
  /// `optimizer` gives the rates; its step number and gradient scale are set here.
  TrainingReport step(int microbatches, const Feed& feed, AdamW optimizer, double clip_norm);

  Evaluation& evaluation() { return evaluation_; }
  /// Returns the device memory of the evaluation and the optimizer state in bytes, without memory
  /// that libraries allocate.
  std::size_t device_bytes() const {
    return evaluation_.persistent_bytes() + evaluation_.temporary_bytes() + memory_.size();
  }
  std::int64_t steps_done() const { return steps_; }
  /// Return the optimizer state of the i-th parameter of the graph, for checkpoints. It is device
  /// memory, complete once the stream is synchronized.
  std::span<float> value(std::size_t parameter) const { return states_[parameter].value; }
  std::span<float> first_moment(std::size_t parameter) const {
    return states_[parameter].first_moment;
  }
  std::span<float> second_moment(std::size_t parameter) const {
    return states_[parameter].second_moment;
  }
  /// Resumes after values and moments were replaced by those of a run with `steps` steps.
  void resume_at_step(std::int64_t steps);

 private:
  struct State {
    std::span<float> value, first_moment, second_moment;
  };
  void place_states(Device& device);
  void round_working_copies();
  /// Sums the terms of each parameter's gradient. Returns the values that hold the sums, by
  /// parameter.
  std::vector<ValueId> add_terms();
  void update(const AdamW& optimizer, const std::vector<ValueId>& gradients);

  ValueId loss_;
  std::vector<Gradient> gradients_;
  // Declared before the evaluation, whose destructor waits for the work that uses this memory.
  DeviceMemory memory_;   ///< Moments, and f32 values of parameters that are bf16 in the graph.
  DeviceMemory results_;  ///< Host memory: losses by microbatch, then sums of squares by parameter.
  Evaluation evaluation_;
  /// Indexed by parameter; in memory_, or (values) in the evaluation's memory.
  std::vector<State> states_;
  std::int64_t steps_ = 0;
};

}  // namespace weft
