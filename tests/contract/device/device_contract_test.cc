// Tests the contract of every device: memory, streams, events, copies, staging, errors.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/device/device_kinds.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

std::vector<float> counting(std::size_t count, float from = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

/// Array of floats on a device.
struct Floats {
  Floats(Device& device, std::size_t count) : memory(device.allocate(count * sizeof(float))) {}
  std::span<float> span() const {
    return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
  }
  std::span<std::byte> bytes() const { return {memory.data(), memory.size()}; }
  TensorRef tensor() const {
    return {{DType::kF32, {static_cast<std::int64_t>(memory.size() / sizeof(float))}},
            memory.data()};
  }

  DeviceMemory memory;
};

/// Gradients of a layer norm's parameters: an op whose work space grows with the number of rows.
class NormGradient {
 public:
  NormGradient(Device& device, std::int64_t rows)
      : x(device, rows * kColumns),
        dy(device, x.span().size()),
        gamma(device, kColumns),
        beta(device, kColumns),
        rows_(rows) {}
  void queue(Stream& stream) const {
    const TensorType type{DType::kF32, {rows_, kColumns}}, row{DType::kF32, {kColumns}};
    const std::vector<ConstTensorRef> inputs{{type, x.memory.data()}, {type, dy.memory.data()}};
    const std::vector<TensorRef> outputs{{row, gamma.memory.data()}, {row, beta.memory.data()}};
    stream.run({OpKind::kLayerNormWeightGrad, {{"epsilon", 1e-5}}}, inputs, outputs);
  }

  Floats x, dy, gamma, beta;

 private:
  static constexpr std::int64_t kColumns = 33;
  std::int64_t rows_;
};

class DeviceContract : public testing::TestWithParam<KindOfDevice> {
 protected:
  void SetUp() override {
    try {
      device = GetParam().make();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFailedPrecondition) throw;
      GTEST_SKIP() << "skipped: " << error.message();
    }
    stream = device->create_stream();
  }
  void upload(const std::vector<float>& values, const Floats& to) {
    stream->copy(std::as_bytes(std::span(values)), to.bytes());
    stream->synchronize();
  }
  std::vector<float> download(const Floats& from) {
    std::vector<float> values(from.span().size());
    stream->copy(from.bytes(), std::as_writable_bytes(std::span(values)));
    stream->synchronize();
    return values;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

TEST_P(DeviceContract, MemoryIsAlignedAndAsLargeAsAskedFor) {
  std::vector<DeviceMemory> blocks;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{65}, std::size_t{5000000}}) {
    blocks.push_back(device->allocate(bytes));
    blocks.push_back(device->allocate_staging(bytes));
  }
  for (const DeviceMemory& block : blocks)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0u);
  EXPECT_EQ(blocks[4].size(), 65u);
  EXPECT_FALSE(device->description().empty());
}

TEST_P(DeviceContract, StagingIsTheHosts) {
  const DeviceMemory staging = device->allocate_staging(100);
  std::memset(staging.data(), 7, staging.size());
  EXPECT_EQ(staging.data()[99], std::byte{7});
}

TEST_P(DeviceContract, TheHostCanReadMemoryThatTheDeviceCallsHostMemory) {
  const DeviceMemory memory = device->allocate(64);
  stream->fill_zero({memory.data(), memory.size()});
  stream->synchronize();
  // write() reports whether the host can read the memory, without a fault.
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto written = write(ends[1], memory.data(), 1);
  EXPECT_EQ(written == 1, device->is_host_memory()) << errno;
  close(ends[0]);
  close(ends[1]);
}

TEST_P(DeviceContract, CopiesInEveryDirectionAndFromTheMiddleOfBlocks) {
  const std::vector<float> values = counting(1001);
  const Floats a(*device, 1001), b(*device, 1001);
  const DeviceMemory staging = device->allocate_staging(1001 * sizeof(float));
  stream->copy(std::as_bytes(std::span(values)), a.bytes());
  stream->copy(a.bytes().subspan(4, 3000), b.bytes().subspan(8, 3000));
  stream->copy(b.bytes().subspan(8, 3000), {staging.data() + 12, 3000});
  stream->copy({staging.data() + 12, 3000}, a.bytes().subspan(1004, 3000));
  stream->synchronize();
  EXPECT_EQ(reinterpret_cast<const float*>(staging.data())[3], 1);
  EXPECT_EQ(reinterpret_cast<const float*>(staging.data())[3 + 749], 750);
  const std::vector<float> result = download(a);
  EXPECT_EQ(result[250], 250);
  EXPECT_EQ(result[251], 1);
  EXPECT_EQ(result[1000], 750);
}

TEST_P(DeviceContract, AStreamRunsItsWorkInOrder) {
  const Floats a(*device, 37), b(*device, 37);
  stream->fill_zero(a.bytes());
  upload(counting(37), b);
  for (int i = 0; i < 40; ++i) {
    stream->add(b.span(), a.span());
    if (i % 10 == 9) stream->copy(a.bytes(), b.bytes());
  }
  // Four rounds of a += 10 b; b = a.
  EXPECT_EQ(download(a)[3], 3.0F * 10 * 11 * 11 * 11);
  EXPECT_EQ(download(b)[3], 3.0F * 10 * 11 * 11 * 11);
}

TEST_P(DeviceContract, AStreamWaitsForAnEventOfAnother) {
  const auto copies = device->create_stream();
  const Floats a(*device, 513), b(*device, 513);
  const DeviceMemory staging = device->allocate_staging(513 * sizeof(float));
  upload(counting(513, 1), b);
  stream->fill_zero(a.bytes());
  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 5; ++i) stream->add(b.span(), a.span());
    {
      const auto computed = stream->record();
      copies->wait(*computed);
    }
    copies->copy(a.bytes(), {staging.data(), staging.size()});
    const auto copied = copies->record();
    stream->wait(*copied);  // the next round writes to the memory being copied
    copied->synchronize();
    EXPECT_TRUE(copied->done());
    EXPECT_EQ(reinterpret_cast<const float*>(staging.data())[512],
              513.0F * 5 * static_cast<float>(round));
  }
}

TEST_P(DeviceContract, AnEventIsDoneWhenTheWorkBeforeItIs) {
  const Floats a(*device, 100001);
  const DeviceMemory staging = device->allocate_staging(a.bytes().size());
  upload(counting(100001), a);
  stream->copy(a.bytes(), {staging.data(), staging.size()});
  const std::shared_ptr<const Event> event = stream->record();
  // Wait for the event from another thread.
  std::thread([&] {
    event->synchronize();
    EXPECT_TRUE(event->done());
    EXPECT_EQ(reinterpret_cast<const float*>(staging.data())[100000], 100000);
  }).join();
}

TEST_P(DeviceContract, StreamsMayBeUsedByDifferentThreads) {
  const auto other = device->create_stream();
  const Floats a(*device, 1000), b(*device, 1000);
  const auto zero_and_add = [&](Stream& queue, const Floats& values) {
    queue.fill_zero(values.bytes());
    for (int i = 0; i < 100; ++i) queue.add(values.span(), values.span());
    queue.synchronize();
  };
  std::thread thread([&] { zero_and_add(*other, b); });
  zero_and_add(*stream, a);
  thread.join();
  EXPECT_EQ(download(a), download(b));
}

TEST_P(DeviceContract, ArgumentsAreReadWithinTheCall) {
  const Floats a(*device, 65), b(*device, 65), sum(*device, 65);
  upload(counting(65), a);
  upload(counting(65, 2), b);
  {
    Op op{OpKind::kAdd, {}};
    std::vector<ConstTensorRef> inputs{a.tensor(), b.tensor()};
    std::vector<TensorRef> outputs{sum.tensor()};
    std::vector<OutputMode> modes{OutputMode::kWrite};
    stream->run(op, inputs, outputs, modes);
    modes[0] = OutputMode::kAccumulate;
    stream->run(op, inputs, outputs, modes);
    op.kind = OpKind::kMultiply;
    modes[0] = OutputMode::kWrite;
    inputs.assign(2, {});
    outputs.assign(1, {});
  }
  EXPECT_EQ(download(sum)[64], 2.0F * (64 + 66));
}

TEST_P(DeviceContract, SumsOfSquaresAreThereWhenALaterEventIsDone) {
  const Floats a(*device, 1001), b(*device, 3);
  upload(counting(1001), a);
  upload({1, 2, 3}, b);
  const DeviceMemory memory = device->allocate_staging(2 * sizeof(double));
  const std::span<double> results(reinterpret_cast<double*>(memory.data()), 2);
  {
    const std::vector<std::span<const float>> tensors{a.span(), b.span()};
    stream->sums_of_squares(tensors, results);
  }
  stream->record()->synchronize();
  EXPECT_EQ(results[0], 1000.0 * 1001 * 2001 / 6);
  EXPECT_EQ(results[1], 14);
}

TEST_P(DeviceContract, AdamWFollowsItsFormulaForAllParametersOfACall) {
  constexpr std::size_t kCount = 67;
  struct Parameter {
    Parameter(Device& device, DeviceMemory copy)
        : g(device, kCount),
          p(device, kCount),
          m(device, kCount),
          v(device, kCount),
          working(std::move(copy)) {}
    Floats g, p, m, v;
    DeviceMemory working;
  };
  Parameter first(*device, device->allocate(2 * kCount)), second(*device, {});
  for (const Parameter* parameter : {&first, &second}) {
    upload(counting(kCount, -30), parameter->g);
    upload(counting(kCount, 1), parameter->p);
    upload(std::vector<float>(kCount, 0.5F), parameter->m);
    upload(std::vector<float>(kCount, 2), parameter->v);
  }
  const AdamW step{.learning_rate = 0.1, .weight_decay = 0.3, .step = 3, .gradient_scale = 0.5};
  {
    const TensorRef working{{DType::kBF16, {static_cast<std::int64_t>(kCount)}},
                            first.working.data()};
    const std::vector<AdamWParameter> parameters{
        {first.g.span(), first.p.span(), first.m.span(), first.v.span(), true, working},
        {second.g.span(), second.p.span(), second.m.span(), second.v.span(), false, {}}};
    stream->adamw(step, parameters);
  }
  std::vector<BFloat16> working(kCount);
  stream->copy({first.working.data(), first.working.size()},
               std::as_writable_bytes(std::span(working)));
  const std::vector<float> with_decay = download(first.p), without = download(second.p),
                           m = download(first.m);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double g = 0.5 * (static_cast<double>(i) - 30), p = static_cast<double>(i) + 1;
    const double expected_m = 0.9 * 0.5 + 0.1 * g, expected_v = 0.95 * 2 + 0.05 * g * g;
    const double change = expected_m / (1 - std::pow(0.9, 3)) /
                          (std::sqrt(expected_v / (1 - std::pow(0.95, 3))) + 1e-8);
    EXPECT_NEAR(m[i], expected_m, 1e-5);
    EXPECT_NEAR(with_decay[i], p - 0.1 * (change + 0.3 * p), 1e-4);
    EXPECT_NEAR(without[i], p - 0.1 * change, 1e-4);
    EXPECT_EQ(working[i].bits, BFloat16(with_decay[i]).bits);
  }
}

TEST_P(DeviceContract, RecordedWorkIsQueuedAgainOnTheSameMemory) {
  const Floats a(*device, 1000), b(*device, 1000), sum(*device, 1000);
  upload(counting(1000), b);
  stream->fill_zero(a.bytes());
  const auto work = [&] {
    const std::vector<ConstTensorRef> inputs{a.tensor(), b.tensor()};
    const std::vector<TensorRef> outputs{sum.tensor()};
    stream->run({OpKind::kAdd, {}}, inputs, outputs);
    stream->add(b.span(), a.span());
  };
  work();
  const auto recording = stream->record_work(work);
  for (int i = 0; i < 3; ++i) {
    if (recording != nullptr) stream->replay(*recording);
    else work();
  }
  EXPECT_EQ(download(a)[999], 5 * 999);
  EXPECT_EQ(download(sum)[999], 5 * 999);
  stream->fill_zero(a.bytes());
  if (recording != nullptr) stream->replay(*recording);
  else work();
  EXPECT_EQ(download(a)[7], 7);
}

TEST_P(DeviceContract, RecordedWorkStaysRightWhenOtherWorkNeedsMoreMemoryAndIsRecordedToo) {
  const NormGradient small(*device, 40), large(*device, 20000);
  std::vector<std::unique_ptr<Recording>> recordings;
  const auto again = [&](const NormGradient& norm, std::size_t recording) {
    stream->fill_zero(norm.gamma.bytes());
    if (recordings[recording] != nullptr) stream->replay(*recordings[recording]);
    else norm.queue(*stream);
  };
  std::vector<std::vector<float>> expected;
  for (const NormGradient* norm : {&small, &large}) {
    upload(counting(norm->x.span().size(), -600), norm->x);
    upload(counting(norm->dy.span().size(), -300), norm->dy);
    norm->queue(*stream);
    expected.push_back(download(norm->gamma));
    stream->fill_zero(norm->gamma.bytes());
    recordings.push_back(stream->record_work([&] { norm->queue(*stream); }));
    EXPECT_EQ(download(norm->gamma), expected.back());
  }
  // These blocks reuse memory that the recordings released, if there is any.
  std::vector<Floats> others;
  for (const std::size_t size : {100, 1000, 10000, 100000}) {
    others.emplace_back(*device, size);
    upload(counting(size), others.back());
  }
  for (int round = 0; round < 3; ++round) {
    again(small, 0);
    EXPECT_EQ(download(small.gamma), expected[0]);
    again(large, 1);
    EXPECT_EQ(download(large.gamma), expected[1]);
  }
  for (const Floats& other : others) EXPECT_EQ(download(other), counting(other.span().size()));
  recordings[0].reset();
  again(large, 1);
  EXPECT_EQ(download(large.gamma), expected[1]);
}

TEST_P(DeviceContract, WorkThatCannotBeRecordedToItsEndLeavesTheStreamAsItWas) {
  const Floats a(*device, 8), b(*device, 8);
  upload(counting(8), b);
  stream->fill_zero(a.bytes());
  stream->add(b.span(), a.span());
  stream->synchronize();
  // A host device does queued work at once and leaves nothing out.
  if (device->is_host_memory()) return;
  EXPECT_THAT(
      [&] {
        stream->record_work([&] {
          stream->add(b.span(), a.span());
          throw Error(ErrorCode::kInternal, "on purpose");
        });
      },
      throws_error(ErrorCode::kInternal, "on purpose"));
  EXPECT_EQ(download(a)[7], 7);
  stream->add(b.span(), a.span());
  EXPECT_EQ(download(a)[7], 14);
  const auto recording = stream->record_work([&] { stream->add(b.span(), a.span()); });
  EXPECT_EQ(download(a)[7], 21);
}

TEST_P(DeviceContract, AnImpossibleAllocationIsAnErrorAndTheDeviceContinues) {
  if (device->is_host_memory()) return;  // sanitizers end the process
  const Error error = error_of([&] { device->allocate(std::size_t{1} << 60); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.message();
  const Floats a(*device, 10);
  upload(counting(10), a);
  EXPECT_EQ(download(a), counting(10));
}

TEST_P(DeviceContract, AnOpWithTensorsThatDoNotFitFailsBySynchronizeAtLatest) {
  const Floats a(*device, 8), b(*device, 5), sum(*device, 8);
  const std::vector<ConstTensorRef> inputs{a.tensor(), b.tensor()};
  const std::vector<TensorRef> outputs{sum.tensor()};
  const Error error = error_of([&] {
    stream->run({OpKind::kAdd, {}}, inputs, outputs);
    stream->synchronize();
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
}

TEST_P(DeviceContract, NotesAreThereOnceEachAndStay) {
  std::vector<std::string> before = device->notes();
  const Floats a(*device, 5), b(*device, 5), sum(*device, 5);
  upload(counting(5), a);
  upload(counting(5), b);
  const std::vector<ConstTensorRef> inputs{a.tensor(), b.tensor()};
  const std::vector<TensorRef> outputs{sum.tensor()};
  stream->run({OpKind::kAdd, {}}, inputs, outputs);
  stream->synchronize();
  std::vector<std::string> after = device->notes();
  ASSERT_GE(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  std::ranges::sort(after);
  EXPECT_EQ(std::ranges::adjacent_find(after), after.end());
}

INSTANTIATE_TEST_SUITE_P(All, DeviceContract, testing::ValuesIn(device_kinds()),
                         [](const auto& test) { return test.param.name; });

TEST(DetachedDevice, WorkOnHostMemoryIsAnErrorThatItsEventsTell) {
  DetachedDevice device;
  const auto stream = device.create_stream(), other = device.create_stream();
  std::vector<float> of_host(4);
  const Floats values(device, 4);
  stream->add(of_host, values.span());
  const auto event = stream->record();
  EXPECT_THAT([&] { event->synchronize(); },
              throws_error(ErrorCode::kInvalidArgument, "not in the device's memory"));
  EXPECT_TRUE(event->done());
  EXPECT_THAT([&] { stream->synchronize(); },
              throws_error(ErrorCode::kInvalidArgument, "not in the device's memory"));
  other->wait(*event);
  EXPECT_THAT([&] { other->synchronize(); },
              throws_error(ErrorCode::kInvalidArgument, "not in the device's memory"));
}

}  // namespace
}  // namespace weft::test
