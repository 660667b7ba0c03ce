#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "tests/bench/op_rates/step_ops.h"
#include "tests/bench/training_step/step_model.h"

namespace weft::test {

/// Times the work of a training step, one op at a time. Reads data inputs, such as token ids, from
/// the model's first step; other tensors are random numbers. Not thread-safe. Device and clock must
/// outlive it.
class OpTimer final {
 public:
  /// Allocates memory for the largest of `ops`.
  OpTimer(Device& device, const Clock& clock, const StepModel& model, std::span<const StepOp> ops);

  /// Returns the seconds of one call, measured for about `budget` seconds; see seconds_per_run().
  ///
  /// Calls rotate through copies of the tensors, twice as large together as the device's cache, so
  /// that the device reads from memory. Small tensors have kMaxCopies copies, which may stay in the
  /// cache. If the device records work (CUDA graphs), a rotation is recorded and replayed, so that
  /// the host's work per call does not limit the rate.
  double seconds(const StepOp& op, double budget);

  static constexpr std::size_t kMaxCopies = 1024;

 private:
  /// Memory of one copy of an op's tensors.
  struct Copy {
    std::vector<ConstTensorRef> inputs;
    std::vector<TensorRef> outputs;
  };
  std::vector<Copy> place_copies(const StepOp& op);
  void queue(const StepOp& op, const Copy& copy);

  Device& device_;
  const Clock& clock_;
  std::map<std::string, DeviceMemory> data_;  ///< Contents of the data inputs, by name.
  DeviceMemory memory_;
  DeviceMemory squares_;            ///< Host memory for sums of squares.
  std::unique_ptr<Stream> stream_;  ///< Destroyed first, as its work uses the memory.
};

}  // namespace weft::test
