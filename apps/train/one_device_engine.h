#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "apps/train/training_engine.h"
#include "core/base/clock.h"
#include "core/evaluate/one_device_trainer.h"

namespace weft::apps {

/// Trains in this process, on one device, without a cluster: what runs on meshes are compared with,
/// and what tests drive the training loop with. The driver's thread only; borrows device and clock.
class OneDeviceEngine final : public TrainingEngine {
 public:
  /// Writes the inputs of one microbatch of a step into an evaluation of the graph: by
  /// Evaluation::write() on any device.
  using Feed = std::function<void(bool validation, std::int64_t step, int microbatch,
                                  Evaluation& evaluation)>;

  /// `graph`'s loss is a microbatch's share of the mean loss of a batch.
  OneDeviceEngine(Device& device, const Clock& clock, TrainingGraph graph, int microbatches,
                  std::uint64_t seed, Feed feed);

  StepOutcome step(const StepOrder& order) override;
  double validate(std::int64_t batches) override;
  ParameterList parameters() const override;
  bool copies() const override { return true; }
  void copy_state() override;
  void gather(const TakePiece& take, const std::stop_token& stop) override;
  void restore(const GivePiece& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override;

 private:
  Device& device_;
  const Clock& clock_;
  const TrainingGraph graph_;
  const int microbatches_;
  const Feed feed_;
  OneDeviceTrainer trainer_;
  DeviceTrace trace_;
  std::vector<std::vector<float>> copies_;  ///< Three for each parameter, as StateBlock has them.
};

}  // namespace weft::apps
