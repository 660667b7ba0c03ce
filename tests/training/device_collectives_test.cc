// Tests training with an in-memory collective library (FakeWorld). Bits must equal those of
// transfers through host memory, whatever the timing. Also tests a death in mid-step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <variant>

#include "core/base/error.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/detached_device.h"
#include "tests/support/fake_world/fake_collectives.h"
#include "tests/support/gpu_places.h"
#include "tests/support/thrown_error.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using transfer::DeviceId;

constexpr std::uint64_t kCollectiveSteps = 3;

struct CollectiveCase {
  Case layout;
  std::string schedule;
  mesh::Lowering lowering = mesh::Lowering::kLanes;
  transfer::ReshardAlgorithm strategy = transfer::ReshardAlgorithm::kWeft;
  DType precision = DType::kF32;
};

/// Returns every layout with every schedule. Lowerings, strategies and precisions alternate.
std::vector<CollectiveCase> collective_cases() {
  std::vector<CollectiveCase> all;
  const std::vector<Case> layouts = master_cases();
  for (std::size_t l = 1; l < layouts.size(); ++l) {
    for (const std::string& schedule : mesh::one_stage_schedule_names()) {
      const std::size_t i = all.size();
      all.push_back(
          {layouts[l], schedule, i % 5 == 2 ? mesh::Lowering::kSafe : mesh::Lowering::kLanes,
           std::array{transfer::ReshardAlgorithm::kWeft, transfer::ReshardAlgorithm::kBroadcast,
                      transfer::ReshardAlgorithm::kSendRecv}[i % 3],
           i % 4 == 1 ? DType::kBF16 : DType::kF32});
    }
  }
  return all;
}

mesh::TrainingPlan plan_with_gpus(const CollectiveCase& c, const std::set<std::uint32_t>& cpus = {},
                                  bool deterministic = true,
                                  mesh::GpuTransfers gpu_transfers = mesh::GpuTransfers::kAuto) {
  mesh::ParallelConfig layout = layout_of(c.layout, c.schedule, c.strategy);
  layout.lowering = c.lowering;
  layout.gpu_transfers = gpu_transfers;
  std::size_t devices = 0;
  for (const auto& [data, tensor] : c.layout.meshes) devices += data * tensor;
  mesh::PlanConditions conditions{.device_places = gpu_places(devices),
                                  .deterministic = deterministic};
  for (const std::uint32_t cpu : cpus) conditions.device_places[cpu].is_gpu = false;
  return mesh::make_training_plan(layout, small_gpt(3, false, c.precision), places_of(c.layout),
                                  conditions);
}

mesh::InProcessCollectives collectives_of(
    FakeWorld& world, Nanoseconds operation_timeout = std::chrono::seconds(60)) {
  return {[&world](DeviceId device) {
            return std::make_unique<FakeWorld::Collectives>(world, device.value());
          },
          {std::chrono::seconds(60), operation_timeout}};
}

std::size_t carried(const mesh::TrainingPlan& plan) {
  std::size_t operations = 0;
  for (const mesh::Program& program : plan.train.programs)
    operations += program.collective_order.size();
  return operations;
}

/// Counts the sums that devices compute from received terms.
std::size_t sums(const mesh::TrainingPlan& plan) {
  std::size_t found = 0;
  for (const mesh::Program& program : plan.train.programs) {
    for (const mesh::Transfer& transfer : program.transfers) {
      if (transfer.library_share() == nullptr) continue;
      for (const transfer::OperationStep& step : transfer.library_share()->steps)
        found += std::holds_alternative<transfer::SumStep>(step);
    }
  }
  return found;
}

void expect_the_bits_of_the_host_path(const CollectiveCase& c, const std::set<std::uint32_t>& cpus,
                                      std::uint64_t seed, FakeWorld::Options options = {}) {
  const mesh::TrainingPlan plan = plan_with_gpus(c, cpus);
  const mesh::TrainingPlan through_host = plan_with_gpus(c, cpus, true, mesh::GpuTransfers::kHost);
  EXPECT_GT(carried(plan), 0u);
  EXPECT_EQ(carried(through_host), 0u);
  RandomBatches batches({kRows, kVocabulary, 11});
  FakeWorld world(options);
  DetachedDevice device({.shuffle_seed = seed});
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = seed;
  mesh::InProcessTraining expected(through_host, batches, 7);
  mesh::InProcessTraining training(plan, batches, 7, shuffled, &device, collectives_of(world));
  for (std::uint64_t step = 0; step < kCollectiveSteps; ++step) {
    const mesh::StepResult on_cpu = expected.run(train_step(step)),
                           result = training.run(train_step(step));
    EXPECT_EQ(result.loss, on_cpu.loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, on_cpu.grad_norm) << "step " << step;
    EXPECT_EQ(result.reshard_bytes, on_cpu.reshard_bytes);
    EXPECT_EQ(result.collective_bytes, on_cpu.collective_bytes);
  }
  mesh::StepRequest validation;
  validation.program = mesh::kValidateProgram;
  validation.split = mesh::Split::kValidation;
  EXPECT_EQ(training.run(validation).loss, expected.run(validation).loss);
  EXPECT_EQ(gather(training), gather(expected));
  EXPECT_EQ(world.error(), "");
}

class CollectiveMaster : public testing::TestWithParam<std::size_t> {};

TEST_P(CollectiveMaster, GivesTheBitsOfTheHostPath) {
  expect_the_bits_of_the_host_path(collective_cases()[GetParam()], {}, GetParam() + 1);
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveMaster,
                         testing::Range(std::size_t{0}, collective_cases().size()),
                         [](const auto& test) {
                           const CollectiveCase c = collective_cases()[test.param];
                           std::string name = c.layout.name + "_" + c.schedule;
                           for (char& letter : name)
                             letter =
                                 std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return name;
                         });

TEST(DeviceCollectives, GoBesideTransfersThroughHostMemory) {
  const Case layout = master_cases()[7];  // meshes of devices 0-1, 2-3 and 4-7
  for (const std::set<std::uint32_t>& cpus : {std::set<std::uint32_t>{2}, {4, 5, 6, 7}, {0, 7}}) {
    for (const std::string schedule : {"eager-1f1b", "zb-h1"}) {
      const CollectiveCase c{layout, schedule};
      EXPECT_FALSE(plan_with_gpus(c, cpus).collectives.staged[0].empty());
      expect_the_bits_of_the_host_path(c, cpus, 5);
    }
  }
}

TEST(DeviceCollectives, SumsOfTheLibraryAreCloseToThoseInRankOrder) {
  for (const std::size_t layout : {2, 4, 7}) {
    const CollectiveCase c{master_cases()[layout], "1f1b"};
    const mesh::TrainingPlan in_order = plan_with_gpus(c),
                             in_any_order = plan_with_gpus(c, {}, false);
    EXPECT_GT(sums(in_order), 0u);
    EXPECT_EQ(sums(in_any_order), 0u) << "the library adds up";
    RandomBatches batches({kRows, kVocabulary, 11});
    DetachedDevice device;
    FakeWorld world, other_world;
    mesh::InProcessTraining expected(in_order, batches, 7, {}, &device, collectives_of(world));
    mesh::InProcessTraining training(in_any_order, batches, 7, {}, &device,
                                     collectives_of(other_world));
    for (std::uint64_t step = 0; step < kCollectiveSteps; ++step) {
      const mesh::StepResult found = training.run(train_step(step)),
                             wanted = expected.run(train_step(step));
      EXPECT_NEAR(found.loss, wanted.loss, 1e-4 * wanted.loss);
      EXPECT_NEAR(found.grad_norm, wanted.grad_norm, 1e-4 * wanted.grad_norm);
    }
  }
}

TEST(DeviceCollectives, ConnectBeforeTheFirstStepSoThatNoStepWaitsForThat) {
  expect_the_bits_of_the_host_path({master_cases()[4], "1f1b"}, {}, 3, {.connects_lazily = true});
}

TEST(DeviceCollectives, ARunGoesOnWithOtherProgramsAndKeepsTheCommunicatorsThatTheyShare) {
  const mesh::TrainingPlan first = plan_with_gpus({master_cases()[4], "1f1b"});
  const mesh::TrainingPlan second =
      plan_with_gpus({master_cases()[4], "gpipe", mesh::Lowering::kSafe});
  RandomBatches batches({kRows, kVocabulary, 11});
  FakeWorld world;
  DetachedDevice device;
  mesh::InProcessTraining expected(first, batches, 7, {}, &device, collectives_of(world));
  const std::size_t before = world.created();
  mesh::InProcessTraining training(first, batches, 7, {}, &device, collectives_of(world));
  EXPECT_EQ(world.created(), 2 * before);
  EXPECT_EQ(training.run(train_step(0)).loss, expected.run(train_step(0)).loss);
  training.use(second);
  EXPECT_EQ(world.created(), 2 * before) << "both need the same";
  EXPECT_EQ(training.run(train_step(1)).loss, expected.run(train_step(1)).loss);
}

TEST(DeviceCollectives, APlanThatNeedsThemIsRefusedWithoutThem) {
  RandomBatches batches({kRows, kVocabulary, 11});
  DetachedDevice device;
  const mesh::TrainingPlan plan = plan_with_gpus({master_cases()[1], "1f1b"});
  EXPECT_THAT([&] { mesh::InProcessTraining(plan, batches, 7, {}, &device); },
              throws_error(ErrorCode::kInvalidArgument,
                           "the plan needs device collectives, but none are given"));
}

/// Calls a function when a certain batch is read.
class TellingBatches final : public mesh::BatchSource {
 public:
  explicit TellingBatches(std::function<void()> tell) : tell_(std::move(tell)) {}
  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override {
    if (step == 1 && microbatch == 2) tell_();
    batches_.read(input, split, step, microbatch, microbatches, region, out);
  }

 private:
  RandomBatches batches_{{kRows, kVocabulary, 11}};
  const std::function<void()> tell_;
};

TEST(DeviceCollectives, ADeathInMidStepEndsItWithItsCauseAndNothingStaysUnderWay) {
  for (const bool sees_death : {true, false}) {
    for (std::size_t l = 1; l < master_cases().size(); ++l) {
      for (const std::uint32_t victim : {0u, 1u}) {
        SCOPED_TRACE(
            fmt::format("{} victim {} sees death {}", master_cases()[l].name, victim, sees_death));
        const mesh::TrainingPlan plan = plan_with_gpus({master_cases()[l], "eager-1f1b"});
        FakeWorld world({.sees_death = sees_death});
        TellingBatches batches([&] { world.kill(victim); });
        DetachedDevice device({.shuffle_seed = victim + 1});
        mesh::InProcessTraining training(
            plan, batches, 7, {}, &device,
            collectives_of(world, std::chrono::milliseconds(sees_death ? 60'000 : 200)));
        training.run(train_step(0));
        std::optional<Error> error;
        try {
          training.run(train_step(1));
        } catch (const Error& thrown) {
          error = thrown;
        }
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->code(), sees_death ? ErrorCode::kPeerDied : ErrorCode::kDeadlineExceeded)
            << error->describe();
        EXPECT_THAT(error->message(),
                    sees_death ? HasSubstr("has died") : HasSubstr("did not complete within"));
        EXPECT_THAT(error->message(),
                    AnyOf(HasSubstr("(the device is at '"), HasSubstr("has died")));
        // The epoch has ended. No step can start in it.
        EXPECT_THAT([&] { training.run(train_step(2)); },
                    throws_error(ErrorCode::kCancelled, "another device of this run failed"));
      }
    }
  }
}

}  // namespace
}  // namespace weft::test
