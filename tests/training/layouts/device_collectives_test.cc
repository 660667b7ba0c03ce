// Tests layouts with an in-memory collective library (FakeWorld): gathers, reduce-scatters and
// all-to-alls give the same bits as transfers through host memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <variant>

#include "mesh/program/capture_segments.h"
#include "tests/support/detached_device.h"
#include "tests/support/fake_world/fake_collectives.h"
#include "tests/support/gpu_places.h"
#include "tests/training/layouts/gpt_on_layouts.h"

namespace weft::test {
namespace {

std::size_t carried(const mesh::TrainingPlan& plan) {
  std::size_t operations = 0;
  for (const mesh::Program& program : plan.train.programs)
    operations += program.collective_order.size();
  return operations;
}

class LayoutCollectives : public testing::TestWithParam<std::tuple<LayoutMesh, mesh::Duplex>> {};

TEST_P(LayoutCollectives, GiveTheBitsOfTheHostPath) {
  const apps::GptShape shape = gpt_shape(2);
  const auto& [layout, duplex] = GetParam();
  constexpr int kMicrobatchesOfStep = 2;
  mesh::ParallelConfig on_gpus;
  on_gpus.duplex = duplex;
  mesh::ParallelConfig through_host = on_gpus;
  through_host.gpu_transfers = mesh::GpuTransfers::kHost;
  const auto plan = [&](const mesh::ParallelConfig& base) {
    mesh::PlanConditions conditions{.device_places = gpu_places(layout.devices()),
                                    .flops_per_second = 4e8};
    for (std::int64_t host = 0; host < layout.devices(); ++host)
      conditions.links["host" + std::to_string(host)] = 25e6;
    return plan_on({layout}, shape, kMicrobatchesOfStep, "zb-h1", base, conditions);
  };
  const mesh::TrainingPlan library = plan(on_gpus), host = plan(through_host);
  EXPECT_GT(carried(library), 0u);
  // A segment that a GPU captures ends where another member goes on.
  const mesh::Program& first = library.train.programs.front();
  for (const mesh::CaptureSegment& segment : mesh::find_capture_segments(first))
    EXPECT_TRUE(
        std::none_of(first.instructions.begin() + static_cast<std::ptrdiff_t>(segment.begin),
                     first.instructions.begin() + static_cast<std::ptrdiff_t>(segment.end),
                     [](const mesh::Instruction& instruction) {
                       return std::holds_alternative<mesh::BeginAction>(instruction);
                     }));
  EXPECT_EQ(carried(host), 0u);
  RandomBatches batches({shape.batch, shape.vocabulary, 11});
  mesh::InProcessTraining expected(host, batches, 7);
  FakeWorld world{FakeWorld::Options()};
  DetachedDevice device({.shuffle_seed = 5});
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 5;
  const mesh::InProcessCollectives collectives{
      [&world](transfer::DeviceId id) {
        return std::make_unique<FakeWorld::Collectives>(world, id.value());
      },
      {std::chrono::seconds(60), std::chrono::seconds(60)}};
  mesh::InProcessTraining training(library, batches, 7, shuffled, &device, collectives);
  for (int step = 0; step < 3; ++step) {
    const mesh::StepResult is = training.run(train_step(step));
    const mesh::StepResult should = expected.run(train_step(step));
    EXPECT_EQ(is.loss, should.loss) << "step " << step;
    EXPECT_EQ(is.grad_norm, should.grad_norm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LayoutCollectives,
    testing::Combine(
        testing::Values(LayoutMesh{"1d", {{"tensor", 2}}},
                        LayoutMesh{"2d", {{"r", 2}, {"c", 2}}, mesh::GatherFrequency::kUse},
                        LayoutMesh{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}},
                        LayoutMesh{
                            "3d", {{"i", 2}, {"j", 2}, {"l", 2}}, mesh::GatherFrequency::kStep},
                        LayoutMesh{"fsdp", {{"data", 4}}}),
        testing::Values(mesh::Duplex::kOff, mesh::Duplex::kHalves)),
    [](const auto& test) {
      return "mesh_" + std::to_string(test.index / 2) + "_" +
             std::string(to_string(std::get<1>(test.param)));
    });

}  // namespace
}  // namespace weft::test
