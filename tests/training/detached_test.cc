// Tests training on detached devices, which run asynchronously in their own memory like GPUs. The
// same programs give the same bits, and a failure leaves no work in flight.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "core/base/error.h"
#include "mesh/program/capture_segments.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/runtime/initialize.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kDetachedSteps = 3;

/// Layout for one combination of schedule and strategy. Layouts and precisions alternate.
struct Combination {
  Case layout;
  std::string schedule;
  transfer::ReshardAlgorithm strategy = transfer::ReshardAlgorithm::kWeft;
};

std::vector<Combination> combinations() {
  std::vector<Combination> all;
  const std::vector<Case> cases = master_cases();
  for (const std::string& schedule : mesh::one_stage_schedule_names()) {
    for (const auto strategy :
         {transfer::ReshardAlgorithm::kSendRecv, transfer::ReshardAlgorithm::kLocalAllgather,
          transfer::ReshardAlgorithm::kBroadcast, transfer::ReshardAlgorithm::kWeft}) {
      all.push_back({cases[(all.size() * 3 + all.size() / 8) % cases.size()], schedule, strategy});
    }
  }
  return all;
}

/// Returns the expected recordings of a plan's devices after two or more steps.
DetachedDevice::Recordings recordings_after(std::uint64_t steps, const mesh::TrainingPlan& plan) {
  DetachedDevice::Recordings expected;
  for (const mesh::Program& program : plan.train.programs) {
    const std::vector<mesh::CaptureSegment> segments = mesh::find_capture_segments(program);
    std::set<std::uint32_t> works;
    for (const mesh::CaptureSegment& segment : segments) works.insert(segment.work);
    expected.made += works.size();
    expected.replays += steps * segments.size() - 2 * works.size();
  }
  expected.alive = expected.made;
  return expected;
}

class DetachedMaster : public testing::TestWithParam<std::size_t> {};

TEST_P(DetachedMaster, GivesTheBitsOfTheCpu) {
  const Combination c = combinations()[GetParam()];
  const DType precision = GetParam() % 4 == 1 ? DType::kBF16 : DType::kF32;
  const mesh::TrainingPlan plan = plan_of(c.layout, c.schedule, c.strategy, precision);
  RandomBatches batches({kRows, kVocabulary, 11});
  DetachedDevice device({.shuffle_seed = GetParam() + 1});
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  mesh::InProcessTraining expected(plan, batches, 7), training(plan, batches, 7, shuffled, &device);
  for (std::uint64_t step = 0; step < kDetachedSteps; ++step) {
    const mesh::StepResult on_cpu = expected.run(train_step(step)),
                           result = training.run(train_step(step));
    EXPECT_EQ(result.loss, on_cpu.loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, on_cpu.grad_norm) << "step " << step;
    EXPECT_EQ(result.reshard_bytes, on_cpu.reshard_bytes);
    EXPECT_EQ(result.collective_bytes, on_cpu.collective_bytes);
  }
  EXPECT_EQ(device.recordings(), recordings_after(kDetachedSteps, plan));
  EXPECT_EQ(gather(training), gather(expected));
}

INSTANTIATE_TEST_SUITE_P(All, DetachedMaster, testing::Range(std::size_t{0}, combinations().size()),
                         [](const auto& test) {
                           const Combination c = combinations()[test.param];
                           std::string name = c.layout.name + "_" + c.schedule + "_" +
                                              std::string(transfer::to_string(c.strategy));
                           for (char& letter : name)
                             letter =
                                 std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return name;
                         });

TEST(Detached, ResumesFromACheckpointOnOtherMeshes) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[4], "1f1b", transfer::ReshardAlgorithm::kWeft, DType::kBF16);
  const mesh::TrainingPlan other =
      plan_of(master_cases()[7], "eager-1f1b", transfer::ReshardAlgorithm::kWeft, DType::kBF16);
  RandomBatches batches({kRows, kVocabulary, 11});
  DetachedDevice device;
  mesh::InProcessTraining first(plan, batches, 7, {}, &device),
      second(other, batches, 8, {}, &device);
  for (std::uint64_t step = 0; step < 2; ++step) first.run(train_step(step));
  const auto blocks = gather(first);
  scatter(second, blocks);
  EXPECT_EQ(gather(second), blocks);
  const double expected = first.run(train_step(2)).loss;
  EXPECT_NEAR(second.run(train_step(2)).loss, expected, 2e-2 * expected)
      << "bf16, and other orders of sums";
}

/// Two stages on one detached device, advanced by the test.
class ByHand {
 public:
  ByHand() : plan_(plan_of(master_cases()[1], "1f1b", transfer::ReshardAlgorithm::kBroadcast)) {
    for (std::uint32_t i = 0; i < 2; ++i) sides_.push_back(std::make_unique<Side>(*this, i));
    for (std::uint32_t i = 0; i < 2; ++i) {
      const transfer::DeviceId peer(1 - i);
      sides_[i]->engine.connect(peer, plan_.topology.host_of(peer),
                                sides_[1 - i]->engine.address());
    }
  }

  struct Side {
    Side(ByHand& all, std::uint32_t i)
        : program(all.plan_.train.programs[i]),
          stream(all.device.create_stream()),
          storage(all.device),
          engine(all.hub.attach(transfer::DeviceId(i)), all.clock,
                 {.mode = transfer::EngineOptions::Mode::kStepped}),
          copies(all.device, all.clock),
          resources{*stream, copies, storage, engine, all.batches, all.clock} {
      storage.provide(program, *stream);
      mesh::initialize_parameters(program, 7, storage, *stream);
      interpreter = std::make_unique<mesh::Interpreter>(program, train_step(0), resources, [] {});
    }
    const mesh::Program& program;
    std::unique_ptr<Stream> stream;
    mesh::Storage storage;
    transfer::TransferEngine engine;
    mesh::CopyStreams copies;
    mesh::Resources resources;
    std::unique_ptr<mesh::Interpreter> interpreter;
  };
  Side& side(std::size_t i) { return *sides_[i]; }

  /// Advances both sides until `done`. Returns the first error of a side.
  std::optional<Error> run_until(const std::function<bool()>& done) {
    while (!done()) {
      for (const auto& side : sides_) {
        side->engine.poll();
        if (ended_.contains(side.get())) continue;
        try {
          if (side->interpreter->advance() == mesh::Interpreter::Progress::kDone)
            ended_.insert(side.get());
        } catch (...) {
          ended_.insert(side.get());
          return current_error();
        }
      }
    }
    return std::nullopt;
  }
  bool both_ended() const { return ended_.size() == 2; }
  /// Cancels all transfers. Waits until both sides are quiescent without another call of advance().
  void cancel_and_drain() {
    for (const auto& side : sides_)
      side->engine.cancel_all(Error(ErrorCode::kCancelled, "the test is over"));
    for (const auto& side : sides_) {
      while (!side->interpreter->quiescent()) {
        for (const auto& each : sides_) each->engine.poll();
      }
    }
  }

  SteadyClock clock;
  transfer::LoopbackHub hub;
  DetachedDevice device;
  RandomBatches batches{{kRows, kVocabulary, 11}};

 private:
  const mesh::TrainingPlan plan_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::set<Side*> ended_;
};

TEST(Detached, ADeviceIsGivenAtMostTwoActionsAheadAndNobodyWaitsForItMeanwhile) {
  ByHand training;
  training.device.hold();
  auto& interpreter = *training.side(0).interpreter;
  EXPECT_EQ(interpreter.advance(), mesh::Interpreter::Progress::kBlocked);
  const std::size_t at = interpreter.instruction();
  EXPECT_EQ(interpreter.advance(), mesh::Interpreter::Progress::kBlocked);
  EXPECT_EQ(interpreter.instruction(), at);
  EXPECT_TRUE(interpreter.device_busy());
  int begun = 0;
  for (std::size_t i = 0; i < at; ++i)
    begun += std::holds_alternative<mesh::BeginAction>(training.side(0).program.instructions[i]);
  EXPECT_EQ(begun, 2);
  training.device.go_on();
  EXPECT_EQ(training.run_until([&] { return training.both_ended(); }), std::nullopt);
  EXPECT_FALSE(interpreter.finish().action_times.empty());
}

TEST(Detached, ATransferThatFailsWhileCopiesAreUnderWayLeavesNothingBehind) {
  ByHand training;
  auto& first = *training.side(0).interpreter;
  // Runs until the first stage has sent its forwards.
  EXPECT_EQ(
      training.run_until([&] { return training.side(0).engine.counters().transfers_finished > 0; }),
      std::nullopt);
  training.device.hold();
  training.hub.kill(transfer::DeviceId(1));
  const auto error = training.run_until([&] { return false; });
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->code() == ErrorCode::kPeerDied || error->code() == ErrorCode::kUnavailable)
      << error->describe();
  EXPECT_FALSE(first.quiescent()) << "what the device was given is not done";
  training.device.go_on();
  training.cancel_and_drain();
  EXPECT_TRUE(first.quiescent());
}

TEST(Detached, CancelledAtAnyPointNoBufferStaysInUse) {
  for (int rounds = 1; rounds < 60; rounds += 6) {
    ByHand training;
    int round = 0;
    EXPECT_EQ(training.run_until([&] { return ++round > rounds || training.both_ended(); }),
              std::nullopt);
    training.cancel_and_drain();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(training.side(i).interpreter->quiescent());
  }
}

TEST(Detached, AFailureOfTheDeviceEndsTheStepAndSaysWhere) {
  class OutsideTheTable final : public mesh::BatchSource {
   public:
    void read(std::string_view, mesh::Split, std::uint64_t, int, int, const Region&,
              std::span<std::byte> out) override {
      std::fill(out.begin(), out.end(), std::byte{0x70});
    }
  };
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[1], "1f1b", transfer::ReshardAlgorithm::kWeft);
  OutsideTheTable batches;
  DetachedDevice device;
  mesh::InProcessTraining training(plan, batches, 7, {}, &device);
  EXPECT_THAT([&] { training.run(train_step(0)); },
              throws_error(ErrorCode::kInvalidArgument, "on the device, at "));
}

TEST(Detached, ABlockOfTheDeviceIsNotTheHosts) {
  DetachedDevice device;
  mesh::Storage storage(device);
  mesh::Program program;
  program.persistents = {{"parameter/w", 64}, {"norms/own", 64, mesh::MemoryKind::kHost}};
  storage.provide(program, *device.create_stream());
  EXPECT_THAT([&] { storage.block("parameter/w"); },
              throws_error(ErrorCode::kFailedPrecondition, "which the host cannot access"));
  EXPECT_EQ(storage.block("norms/own")[63], std::byte{0});
}

}  // namespace
}  // namespace weft::test
