#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "core/base/clock.h"
#include "core/evaluate/one_device_trainer.h"
#include "mesh/runtime/training_engine.h"

namespace weft::test {

/// Trains in this process, on one device, without a cluster: what runs on meshes are compared with,
/// and what tests drive the training loop with. The driver's thread only; borrows device and clock.
class OneDeviceEngine final : public mesh::TrainingEngine {
 public:
  /// Writes the inputs of one microbatch of a step into an evaluation of the graph: by
  /// Evaluation::write() on any device.
  using Feed = std::function<void(bool validation, std::int64_t step, int microbatch,
                                  Evaluation& evaluation)>;

  /// `graph`'s loss is a microbatch's share of the mean loss of a batch.
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
  /// The mean loss of a batch of the held-out part.
  double validate(std::int64_t batch);

  Device& device_;
  const Clock& clock_;
  const TrainingGraph graph_;
  const int microbatches_;
  const Feed feed_;
  OneDeviceTrainer trainer_;
  DeviceTrace trace_;
  std::vector<std::vector<float>> copies_;  ///< Three for each parameter, as StateBlock has them.
};

}  // namespace weft::test
