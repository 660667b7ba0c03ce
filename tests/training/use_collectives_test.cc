#include "mesh/program/use_collectives.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/plan_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "mesh/plan/training_plan.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/gpu_places.h"
#include "tests/training/layouts.h"

namespace weft::mesh {
namespace {

using transfer::DeviceId;
using transfer::OperationKey;
using Path = transfer::PathChoice::Path;

constexpr Path kCollectives = Path::kCollectives;

std::size_t devices_of(const test::Case& c) {
  std::size_t devices = 0;
  for (const auto& [data, tensor] : c.meshes) devices += data * tensor;
  return devices;
}

TrainingPlan plan_on(const test::Case& c, const std::string& schedule,
                     std::vector<transfer::DeviceCapabilities> places,
                     Lowering lowering = Lowering::kLanes) {
  ParallelConfig layout = test::layout_of(c, schedule, transfer::ReshardAlgorithm::kWeft);
  layout.lowering = lowering;
  return make_training_plan(layout, test::small_gpt(), test::places_of(c),
                            {.device_places = std::move(places)});
}

/// Checks that a queue can run operations in each program's order: each started operation is in it
/// once, the operations before one that a device waits for have been started, and the devices'
/// orders do not conflict.
void check_orders(const std::vector<Program>& programs) {
  std::map<OperationKey, std::set<OperationKey>> after;  // direct successors
  std::map<OperationKey, int> before;
  for (const Program& program : programs) {
    std::set<OperationKey> carried;
    std::map<std::uint32_t, OperationKey> key_of_handle;
    std::set<OperationKey> started;
    std::size_t enqueued = 0;
    for (const Instruction& instruction : program.instructions) {
      if (const auto* start = std::get_if<Start>(&instruction)) {
        const Transfer& transfer = program.transfers[start->transfer];
        if (transfer.library_share() == nullptr) continue;
        const OperationKey key{transfer.op, start->microbatch};
        key_of_handle[start->handle] = key;
        carried.insert(key);
        started.insert(key);
        while (enqueued < program.collective_order.size() &&
               started.contains(program.collective_order[enqueued]))
          ++enqueued;
      } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
        const auto key = key_of_handle.find(wait->handle);
        if (key == key_of_handle.end()) continue;
        const auto& order = program.collective_order;
        EXPECT_LT(std::find(order.begin(), order.end(), key->second) - order.begin(),
                  static_cast<std::ptrdiff_t>(enqueued))
            << program.device_name << " waits for " << to_string(key->second)
            << ", which cannot have begun";
      }
    }
    EXPECT_EQ(
        std::set<OperationKey>(program.collective_order.begin(), program.collective_order.end()),
        carried);
    EXPECT_EQ(program.collective_order.size(), carried.size());
    for (std::size_t i = 0; i < program.collective_order.size(); ++i) {
      before.try_emplace(program.collective_order[i], 0);
      if (i > 0 &&
          after[program.collective_order[i - 1]].insert(program.collective_order[i]).second)
        ++before[program.collective_order[i]];
    }
  }
  // Removes operations without predecessors. If all can be removed, the orders agree.
  for (bool moved = true; moved;) {
    moved = false;
    for (auto at = before.begin(); at != before.end();) {
      if (at->second > 0) {
        ++at;
        continue;
      }
      for (const OperationKey& next : after[at->first]) --before[next];
      at = before.erase(at);
      moved = true;
    }
  }
  EXPECT_TRUE(before.empty()) << "two devices put operations in different orders";
}

TEST(UseCollectives, GivesAllTransfersBetweenGpusOneOrderUnderEverySchedule) {
  for (const test::Case& c : test::master_cases()) {
    for (const std::string& schedule : one_stage_schedule_names()) {
      for (const Lowering lowering : {Lowering::kLanes, Lowering::kSafe}) {
        SCOPED_TRACE(c.name + " " + schedule + (lowering == Lowering::kSafe ? " safe" : ""));
        const TrainingPlan plan = plan_on(c, schedule, test::gpu_places(devices_of(c)), lowering);
        for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
          for (const Program& program : *programs) {
            for (const Transfer& transfer : program.transfers)
              EXPECT_EQ(transfer.library_share() != nullptr,
                        transfer.kind != TransferPurpose::kNorm)
                  << transfer.name;
          }
          check_orders(*programs);
        }
        for (const Program& program : plan.checkpoint.front().scatter)
          EXPECT_TRUE(program.collective_order.empty());
      }
    }
  }
}

TEST(UseCollectives, ACpuAmongTheDevicesKeepsItsTransfersInHostMemory) {
  const test::Case c{"three", {{2, 1}, {1, 2}, {1, 1}}, {1, 1, 1}, true};
  auto places = test::gpu_places(5);
  places[4].is_gpu = false;
  const TrainingPlan plan = plan_on(c, "eager-1f1b", places);
  for (const PlannedEdge& edge : plan.train.edges) {
    const bool touches_cpu = edge.edge.from_mesh == MeshId(2) || edge.edge.to_mesh == MeshId(2);
    const auto staged = plan.collectives.staged[0].find(edge.op);
    EXPECT_EQ(staged != plan.collectives.staged[0].end(), touches_cpu);
    if (touches_cpu) {
      EXPECT_EQ(staged->second, "device 4 is not a GPU");
    }
    EXPECT_EQ(path_of(plan, edge.op),
              touches_cpu ? (transfer::PathChoice{Path::kHostStaged, "device 4 is not a GPU"})
                          : (transfer::PathChoice{kCollectives, ""}));
  }
  for (const transfer::CommunicatorGroup& group : plan.collectives.groups)
    EXPECT_FALSE(group.contains(DeviceId(4)));
  check_orders(plan.train.programs);
}

TEST(UseCollectives, WithoutGpusNothingChanges) {
  const test::Case c = test::master_cases()[4];
  const TrainingPlan plan = plan_on(c, "1f1b", {});
  EXPECT_TRUE(plan.collectives.groups.empty());
  for (const Program& program : plan.train.programs) {
    EXPECT_TRUE(program.collective_order.empty());
    for (const Transfer& transfer : program.transfers) EXPECT_NE(transfer.engine_share(), nullptr);
  }
  EXPECT_EQ(describe(plan).find("GPU"), std::string::npos);
}

TEST(UseCollectives, TheHostPathCanBeForcedAndThePlanSaysWhichPathIsTaken) {
  const test::Case c = test::master_cases()[4];
  ParallelConfig layout = test::layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  const PlanConditions conditions{.device_places = test::gpu_places(devices_of(c))};
  const TrainingPlan plan =
      make_training_plan(layout, test::small_gpt(), test::places_of(c), conditions);
  EXPECT_NE(describe(plan).find("flows, by fake collectives\n"), std::string::npos);
  EXPECT_NE(
      describe(plan).find("transfers of a training step by fake collectives\n  communicators: {"),
      std::string::npos)
      << describe(plan);
  EXPECT_NE(to_string(plan.train.programs.front()).find("by device collectives"),
            std::string::npos);
  layout.gpu_transfers = GpuTransfers::kHost;
  const TrainingPlan forced =
      make_training_plan(layout, test::small_gpt(), test::places_of(c), conditions);
  EXPECT_NE(
      describe(forced).find("between GPUs\n  through host memory (pipeline.gpu_transfers: host)\n"),
      std::string::npos);
  EXPECT_TRUE(forced.collectives.groups.empty());
  for (const PlannedEdge& edge : forced.train.edges)
    EXPECT_EQ(path_of(forced, edge.op).reason, "pipeline.gpu_transfers is host");
  EXPECT_EQ(device_memory(forced, DeviceId(0)) + collective_staging_bytes(plan.train.programs[0]),
            device_memory(plan, DeviceId(0)));
}

TEST(UseCollectives, TrainingAndValidationShareAtMostTwelveCommunicatorsPerDevice) {
  for (const test::Case& c : test::master_cases()) {
    const TrainingPlan plan = plan_on(c, "zb-h1", test::gpu_places(devices_of(c)));
    std::map<DeviceId, int> memberships;
    for (const transfer::CommunicatorGroup& group : plan.collectives.groups) {
      for (const DeviceId device : group.devices) EXPECT_LE(++memberships[device], 12);
    }
  }
}

TEST(UseCollectives, WhereDevicesWouldNeedTooManyCommunicatorsEverythingStays) {
  const test::Case c = test::master_cases()[7];
  const TrainingPlan plan = plan_on(c, "1f1b", {});
  Compiled train = plan.train;
  const std::array<Compiled*, 1> steps{&train};
  const CollectiveAssignment use =
      use_device_collectives(steps, test::gpu_places(devices_of(c)), {.max_communicators = 1});
  EXPECT_TRUE(use.groups.empty());
  EXPECT_FALSE(use.staged[0].empty());
  for (const auto& [op, reason] : use.staged[0])
    EXPECT_NE(reason.find("more than 1 communicators"), std::string::npos) << reason;
  for (const Program& program : train.programs) EXPECT_TRUE(program.collective_order.empty());
}

}  // namespace
}  // namespace weft::mesh
