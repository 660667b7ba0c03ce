#include "core/device/emulated_device.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "core/ops/op_definition.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Clock that advances when a test sleeps on it, each time by `late` too far.
class ManualWaitableClock final : public WaitableClock {
 public:
  explicit ManualWaitableClock(Nanoseconds late = Nanoseconds(0)) : late_(late) {}
  TimePoint now() const override { return now_; }
  void block_until(TimePoint time) override { now_ = std::max(now_, time) + late_; }
  void advance(Nanoseconds by) { now_ += by; }
  Nanoseconds elapsed() const { return now_ - TimePoint{}; }

 private:
  const Nanoseconds late_;
  TimePoint now_{};
};

/// Emulated device with one stream and memory for a block of one row.
struct Fixture {
  explicit Fixture(Nanoseconds late = Nanoseconds(0), double flops_per_second = 0) {
    auto manual = std::make_unique<ManualWaitableClock>(late);
    timer = manual.get();
    device = std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{flops_per_second},
                                              std::move(manual));
    stream = device->create_stream();
    memory = device->allocate(4096);
  }
  TensorRef tensor(Shape shape) { return {{DType::kF32, std::move(shape)}, memory.data()}; }
  void block(double seconds) {
    const Op op{OpKind::kEmulatedBlock,
                {{"seconds", seconds},
                 {"rank", std::int64_t{2}},
                 {"d1", std::int64_t{4}},
                 {"saved", std::int64_t{0}}}};
    const std::vector<ConstTensorRef> inputs{tensor({1, 4}), tensor({8})};
    const std::vector<TensorRef> outputs{tensor({1, 4})};
    stream->run(op, inputs, outputs);
  }

  ManualWaitableClock* timer = nullptr;
  std::unique_ptr<EmulatedDevice> device;
  std::unique_ptr<Stream> stream;
  DeviceMemory memory;
};

TEST(EmulatedDevice, ABlockTakesTheSecondsThatItStates) {
  Fixture f;
  f.block(0.002);
  EXPECT_EQ(f.timer->elapsed(), milliseconds(2));
  f.block(0.0005);
  EXPECT_EQ(f.timer->elapsed(), microseconds(2500));
}

TEST(EmulatedDevice, ATimerThatComesLateDelaysTheEndAndNotEveryStep) {
  Fixture f(microseconds(60));
  for (int i = 0; i < 100; ++i) f.block(0.001);
  EXPECT_EQ(f.timer->elapsed(), milliseconds(100) + microseconds(60));
  Fixture short_ones(microseconds(60));
  for (int i = 0; i < 1000; ++i) short_ones.block(1e-5);
  EXPECT_LE(short_ones.timer->elapsed(), milliseconds(10) + microseconds(60));
  EXPECT_GE(short_ones.timer->elapsed(), milliseconds(10));
}

TEST(EmulatedDevice, IdleTimeIsNotMadeUpFor) {
  Fixture f(microseconds(60));
  f.block(0.001);
  f.timer->advance(milliseconds(50));
  f.block(0.001);
  EXPECT_EQ(f.timer->elapsed(), milliseconds(52) + microseconds(120));
}

TEST(EmulatedDevice, OtherOpsTakeTheirOperationsAtTheRate) {
  Fixture f(Nanoseconds(0), 1e6);
  const std::vector<ConstTensorRef> inputs{f.tensor({4, 5}), f.tensor({5, 10})};
  const std::vector<TensorRef> outputs{f.tensor({4, 10})};
  f.stream->run({OpKind::kLinear, {}}, inputs, outputs);
  EXPECT_EQ(f.timer->elapsed(), microseconds(400));
  EXPECT_EQ(f.device->description(), "emulated (0.0 TFLOP/s)");
}

TEST(EmulatedDevice, RefusesOutputsOfTheWrongType) {
  Fixture f(Nanoseconds(0), 1e6);
  const std::vector<ConstTensorRef> inputs{f.tensor({4, 5}), f.tensor({5, 10})};
  const std::vector<TensorRef> outputs{f.tensor({4, 9})};
  EXPECT_THAT(
      [&] {
        f.stream->run({OpKind::kLinear, {}}, inputs, outputs);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "f32[4,9] was given"));
}

TEST(EmulatedDevice, MemoryIsRealAndZeroesAreWritten) {
  Fixture f;
  f.memory.data()[3] = std::byte{7};
  f.stream->fill_zero({f.memory.data(), f.memory.size()});
  EXPECT_EQ(f.memory.data()[3], std::byte{0});
  double squares = 1;
  const std::span<const float> values = f.tensor({8}).as<float>();
  f.stream->sums_of_squares({&values, 1}, {&squares, 1});
  EXPECT_EQ(squares, 0);
}

}  // namespace
}  // namespace weft
