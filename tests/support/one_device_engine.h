#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "core/base/clock.h"
#include "core/evaluate/one_device_trainer.h"
#include "mesh/runtime/training_engine.h"

namespace weft::test {

/// Training engine on one device in this process, without a cluster. Serves as the reference for
/// runs on meshes and for tests of the training loop. Driver's thread only; borrows device and
/// clock.
class OneDeviceEngine final : public mesh::TrainingEngine {
 public:
  /// Writes the inputs of one microbatch into an evaluation. Evaluation::write() works on any
  /// device.
  using Feed = std::function<void(bool validation, std::int64_t step, int microbatch,
                                  Evaluation& evaluation)>;

  /// The loss of `graph` is a microbatch's share of the batch's mean loss.
  OneDeviceEngine(Device& device, const Clock& clock, TrainingGraph graph, int microbatches,
                  std::uint64_t seed, Feed feed);

  const Graph& graph() const override { return graph_.graph; }
  mesh::StepResult run(mesh::StepRequest request) override;
  bool supports_copies() const override { return true; }
  void copy_state() override;
  void gather(const ReadStateSlice& take, const std::stop_token& stop) override;
  void restore(const WriteStateSlice& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override;

 private:
  /// Returns the mean loss of a held-out batch.
  double validate(std::int64_t batch);

  Device& device_;
  const Clock& clock_;
  const TrainingGraph graph_;
  const int microbatches_;
  const Feed feed_;
  OneDeviceTrainer trainer_;
  DeviceTrace trace_;
  std::vector<std::vector<float>> copies_;  ///< Three per parameter, as in StateBlock.
};

}  // namespace weft::test
