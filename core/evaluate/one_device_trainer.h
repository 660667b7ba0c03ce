#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/evaluate/evaluation.h"

namespace weft {

/// What one training step says about itself.
struct TrainingReport {
  double loss = 0;
  double gradient_norm = 0;  ///< Before clipping. Where it is not finite, the update was skipped.
  /// The first parameter, in the graph's order, whose gradient is not finite; nothing when all are.
  std::optional<std::size_t> first_not_finite = {};
};

/// Trains a graph on one device with AdamW: what every distributed run of the same graph is
/// compared with.
///
/// Of a bf16 parameter the graph reads a copy, rounded from the f32 value that lies here with the
/// moments. Sums have a fixed order: gradients and losses by microbatch index (the losses in
/// double), then the terms of a shared parameter's gradient; the squared norm in double, the
/// parameters' sums in the graph's order. One thread at a time.
class OneDeviceTrainer final {
 public:
  OneDeviceTrainer(Device& device, TrainingGraph graph, std::uint64_t seed);

  /// Writes the inputs of one microbatch into the evaluation.
  using Feed = std::function<void(int microbatch, Evaluation& evaluation)>;
  /// One step: forward and backward of each microbatch, clipping to `clip_norm` (0: none), update.
  /// Gradients whose norm is not finite change nothing; the step counts all the same. `optimizer`
  /// gives the rates; its step count and gradient scale are set here.
  TrainingReport step(int microbatches, const Feed& feed, AdamW optimizer, double clip_norm);

  Evaluation& evaluation() { return evaluation_; }
  /// Of the device's memory: the evaluation's, and what the optimizer keeps. What libraries take
  /// for themselves is not in it.
  std::size_t device_bytes() const {
    return evaluation_.persistent_bytes() + evaluation_.temporary_bytes() + memory_.size();
  }
  std::int64_t steps_done() const { return steps_; }
  /// What the optimizer keeps of the i-th parameter of the graph, for checkpoints: on the device,
  /// and complete when its stream is synchronised.
  std::span<float> value(std::size_t parameter) const { return states_[parameter].value; }
  std::span<float> first_moment(std::size_t parameter) const {
    return states_[parameter].first_moment;
  }
  std::span<float> second_moment(std::size_t parameter) const {
    return states_[parameter].second_moment;
  }
  /// After values and moments were replaced by those of a run that has done so many steps.
  void resume_after(std::int64_t steps);

 private:
  struct State {
    std::span<float> value, first_moment, second_moment;
  };
  void place_states(Device& device);
  void round_working_copies();
  /// Adds up the terms of each parameter's gradient; gives where the sums are, by parameter.
  std::vector<ValueId> add_terms();
  void update(const AdamW& optimizer, const std::vector<ValueId>& gradients);

  ValueId loss_;
  std::vector<Gradient> gradients_;
  // Before the evaluation, whose destructor waits for the work that uses them.
  DeviceMemory memory_;   ///< Moments, and values of those parameters that the graph has in bf16.
  DeviceMemory results_;  ///< The host's: losses by microbatch, then sums of squares by parameter.
  Evaluation evaluation_;
  std::vector<State> states_;  ///< By parameter, in memory_ or (values) in the evaluation's.
  std::int64_t steps_ = 0;
};

}  // namespace weft
