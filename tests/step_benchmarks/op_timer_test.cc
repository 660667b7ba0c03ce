#include "tests/bench/op_rates/op_timer.h"

#include <gtest/gtest.h>

#include <string>

#include "core/cpu/cpu_device.h"
#include "tests/bench/training_step/step_plan.h"
#include "tests/support/detached_device.h"

namespace weft::test {
namespace {

/// Returns quick ops of a step: with token ids, with weights, and the optimizer's.
std::vector<StepOp> quick_ops(const StepModel& model) {
  std::vector<StepOp> ops = ops_of_step(step_plan(model).train.programs.front());
  std::erase_if(ops, [](const StepOp& op) {
    const std::string name = op.name();
    return name != "embedding" && name != "layer_norm" && name != "adamw" &&
           name != "sums of squares";
  });
  return ops;
}

TEST(OpTimer, TimesEveryCallOnAnyDevice) {
  const SteadyClock clock;
  const StepModel model = make_step_model("tiny", 0, DType::kBF16);
  const std::vector<StepOp> ops = quick_ops(model);
  ASSERT_EQ(ops.size(), 4u);
  CpuDevice cpu;
  DetachedDevice asynchronous;
  for (Device* device : {static_cast<Device*>(&cpu), static_cast<Device*>(&asynchronous)}) {
    OpTimer timer(*device, clock, model, ops);
    for (const StepOp& op : ops)
      EXPECT_GT(timer.seconds(op, 0), 0) << op.name() << " on " << device->description();
  }
  // A rotation of each op is recorded once, then replayed; the optimizer's work cannot be recorded.
  EXPECT_EQ(asynchronous.recordings().made, 2u);
  EXPECT_EQ(asynchronous.recordings().replays, 2u * 5);
  EXPECT_EQ(asynchronous.recordings().alive, 0u);
}

}  // namespace
}  // namespace weft::test
