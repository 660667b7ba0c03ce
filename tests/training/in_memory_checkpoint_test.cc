// Tests in-memory copies of state on other hosts: a lost host's state is restored from them bit for
// bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "mesh/plan/plan_memory.h"
#include "mesh/program/in_memory_checkpoint.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/detached_device.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

using Devices = std::set<transfer::DeviceId>;

mesh::TrainingPlan plan_with_copies(const Case& c, DType precision = DType::kF32,
                                    const std::optional<mesh::MeshPlaces>& places = {}) {
  return mesh::make_training_plan(layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft),
                                  small_gpt(3, false, precision), places ? *places : places_of(c),
                                  {.snapshots = mesh::CopyMode::kYes});
}

std::vector<double> losses_of(mesh::InProcessTraining& training, std::uint64_t from,
                              std::uint64_t to) {
  std::vector<double> result;
  for (std::uint64_t step = from; step < to; ++step)
    result.push_back(training.run(train_step(step)).loss);
  return result;
}

void run_program(mesh::InProcessTraining& training, const std::vector<mesh::Program>& programs) {
  mesh::StepRequest request;
  request.program = programs.front().name;
  training.run_on_devices(request);
}

/// Returns programs that overwrite these devices' copies with the state of a later step.
std::vector<mesh::Program> spoiling(const mesh::TrainingPlan& plan, std::size_t slot,
                                    const Devices& devices) {
  std::vector<mesh::Program> programs;
  for (mesh::Program program : plan.snapshots.slots[slot].snapshot) {
    if (!devices.contains(program.device)) continue;
    program.name = fmt::format("spoil device {}", *devices.begin());
    programs.push_back(std::move(program));
  }
  return programs;
}

Devices on_host(const mesh::TrainingPlan& plan, std::uint32_t host) {
  Devices devices;
  for (std::uint32_t d = 0; d < static_cast<std::uint32_t>(plan.num_devices()); ++d)
    if (plan.topology.host_of(transfer::DeviceId(d)) == transfer::HostId(host))
      devices.insert(transfer::DeviceId(d));
  return devices;
}

struct Memory {
  DType precision = DType::kF32;
  bool of_gpus = false;
};
class InMemoryCheckpoint : public ::testing::TestWithParam<std::tuple<std::size_t, Memory>> {};

TEST_P(InMemoryCheckpoint, OfAnyLostHostComesBackAndTrainingGoesOnBitForBit) {
  const auto& [index, memory] = GetParam();
  const mesh::TrainingPlan plan = plan_with_copies(master_cases()[index], memory.precision);
  ASSERT_FALSE(plan.snapshots.empty());
  RandomBatches batches({kRows, kVocabulary, 11});
  DetachedDevice detached;
  mesh::InProcessTraining training(plan, batches, 7, {}, memory.of_gpus ? &detached : nullptr);
  losses_of(training, 0, 3);
  std::vector<double> expected = losses_of(training, 3, 5);
  std::deque<std::vector<mesh::Program>> installed;
  for (std::uint32_t host = 0; host + 1 < plan.hosts.size(); ++host) {
    const std::size_t slot = host % mesh::InMemoryCheckpoint::kSlots;
    run_program(training, plan.snapshots.slots[slot].snapshot);
    if (plan.snapshots.has_backups())
      run_program(training, plan.snapshots.slots[slot].replicate_to_backup);
    expected = losses_of(training, 5, 7);
    const Devices lost = on_host(plan, host);
    const auto& spoil = installed.emplace_back(spoiling(plan, slot, lost));
    training.install(spoil);
    run_program(training, spoil);
    auto planned =
        mesh::compile_fetch(plan.partition, plan.topology, plan.snapshots.groups, slot, true, lost);
    ASSERT_TRUE(planned) << "host " << host;
    const auto& fetch = installed.emplace_back(std::move(*planned));
    training.install(fetch);
    run_program(training, fetch);
    run_program(training, plan.snapshots.slots[slot].restore_from_snapshot);
    EXPECT_EQ(losses_of(training, 5, 7), expected) << "host " << host;
    run_program(training, plan.snapshots.slots[slot].restore_from_snapshot);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, InMemoryCheckpoint,
                         ::testing::Combine(::testing::Range<std::size_t>(1, 8),
                                            ::testing::Values(Memory{DType::kF32, false},
                                                              Memory{DType::kBF16, false},
                                                              Memory{DType::kBF16, true})),
                         [](const auto& test) {
                           const Memory& memory = std::get<1>(test.param);
                           return master_cases()[std::get<0>(test.param)].name +
                                  (memory.precision == DType::kF32 ? "_f32" : "_bf16") +
                                  (memory.of_gpus ? "_detached" : "");
                         });

TEST(KeptStateOf, ReplicasOnSeveralHostsNeedNobodyElse) {
  // mesh0 has its two replicas on two hosts, mesh1 on one host.
  const Case c{"replicas", {{2, 1}, {2, 1}}, {2, 1}};
  const mesh::TrainingPlan plan = plan_with_copies(
      c, DType::kF32, mesh::MeshPlaces{{{"a", 0}, {"b", 0}}, {{"c", 0}, {"c", 1}}});
  ASSERT_EQ(plan.snapshots.groups.size(), 2u);
  EXPECT_FALSE(plan.snapshots.groups[0].backup_device);
  ASSERT_TRUE(plan.snapshots.groups[1].backup_device);
  EXPECT_NE(plan.topology.host_of(*plan.snapshots.groups[1].backup_device),
            plan.topology.host_of(plan.snapshots.groups[1].devices[0]));
  const auto fetch = [&](bool held, const Devices& lost) {
    return mesh::compile_fetch(plan.partition, plan.topology, plan.snapshots.groups, 0, held, lost);
  };
  using transfer::DeviceId;
  EXPECT_TRUE(fetch(false, {DeviceId(0)})) << "its replica has it";
  EXPECT_TRUE(fetch(false, {DeviceId(2)}));
  EXPECT_FALSE(fetch(false, {DeviceId(2), DeviceId(3)})) << "nothing has been sent yet";
  EXPECT_TRUE(fetch(true, {DeviceId(2), DeviceId(3)}));
  EXPECT_FALSE(fetch(true, {DeviceId(0), DeviceId(1)}));
  EXPECT_FALSE(fetch(true, {*plan.snapshots.groups[1].backup_device, DeviceId(2), DeviceId(3)}));
}

TEST(KeptStateOf, OneHostLiesWithAnotherDeviceAndOneDeviceHasNobody) {
  const Case two{"two", {{1, 1}, {1, 1}}, {2, 1}}, one{"one", {{1, 1}}, {3}};
  const mesh::TrainingPlan plan =
      plan_with_copies(two, DType::kF32, mesh::MeshPlaces{{{"a", 0}}, {{"a", 1}}});
  ASSERT_EQ(plan.snapshots.groups.size(), 2u);
  EXPECT_EQ(plan.snapshots.groups[0].backup_device, transfer::DeviceId(1));
  EXPECT_EQ(plan.snapshots.groups[1].backup_device, transfer::DeviceId(0));
  EXPECT_TRUE(plan_with_copies(one).snapshots.empty());
}

TEST(KeptStateOf, MemoryIsCountedAndGivenUpWhereItIsShort) {
  const Case c = master_cases()[4];
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  const mesh::TrainingPlan without = mesh::make_training_plan(layout, small_gpt(), places_of(c));
  const mesh::PlanConditions conditions{.snapshots = mesh::CopyMode::kIfMemoryAllows};
  const mesh::TrainingPlan with =
      mesh::make_training_plan(layout, small_gpt(), places_of(c), conditions);
  const transfer::DeviceId device(0);
  EXPECT_GT(mesh::snapshot_bytes(with.snapshots, device), 0u);
  EXPECT_EQ(mesh::device_memory(with, device),
            mesh::device_memory(without, device) + mesh::snapshot_bytes(with.snapshots, device));
  std::uint64_t most = 0;
  for (const mesh::Program& program : without.train.programs)
    most = std::max(most, mesh::device_memory(without, program.device));
  layout.memory = most;
  const mesh::TrainingPlan short_of =
      mesh::make_training_plan(layout, small_gpt(), places_of(c), conditions);
  EXPECT_TRUE(short_of.snapshots.empty());
  EXPECT_THAT(short_of.decisions.reason_declined(mesh::PlanQuestion::kSnapshots),
              ::testing::HasSubstr("would exceed pipeline.memory"));
}

}  // namespace
}  // namespace weft::test
