// The same programs on device actors, driven by typed calls and moving bytes over UCX: equal to one process over a loopback.

#include "mesh/device_actor/device_actor.h"

#include <gtest/gtest.h>

#include "actors/system/system.h"
#include "mesh/in_process/in_process_training.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

using Actor = mesh::DeviceActor<RandomBatches>;

/// The driver and one process per mesh, all in this process, joined by real sockets and UCX.
class ActorTraining {
 public:
  explicit ActorTraining(const mesh::TrainingPlan& plan) : plan_(plan), driver_(options("driver")) {
    std::vector<mesh::PeerAddress> addresses;
    for (const mesh::DeviceMesh& mesh : plan.partition.meshes) {
      std::vector<actors::ProcessRef> processes;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        systems_.push_back(std::make_unique<actors::System>(options(mesh::device_name(mesh, rank))));
        systems_.back()->provide<Actor>();
        processes.push_back(driver_.connect(systems_.back()->listen({"127.0.0.1", 0})));
      }
      std::vector<actors::MeshShape::Axis> shape;
      for (const mesh::MeshAxis& axis : mesh.axes()) shape.push_back({axis.name, axis.size});
      meshes_.push_back(driver_.spawn_mesh<Actor>(mesh.name(), actors::MeshShape(shape), processes,
                                                  RandomBatches::Config{kRows, kVocabulary, 11}));
      std::vector<mesh::DeviceSetup> setups;
      for (const transfer::DeviceId device : mesh.devices()) setups.push_back({device, plan.topology.host_of(device), 1, 1});
      const auto opened = meshes_.back().scatter<&Actor::open>(setups).get();
      for (std::size_t i = 0; i < opened.size(); ++i) addresses.push_back({setups[i].device, setups[i].host, opened[i]});
    }
    for (auto& mesh : meshes_) mesh.call<&Actor::connect>(addresses).get();
    for (const mesh::Program& program : plan.train.programs) {
      for (std::size_t m = 0; m < meshes_.size(); ++m) {
        if (const auto rank = plan.partition.meshes[m].rank_of(program.device))
          meshes_[m].rank(*rank).call<&Actor::install>(program).get();
      }
    }
    for (auto& mesh : meshes_) mesh.call<&Actor::initialize>(std::uint64_t{7}).get();
  }

  mesh::StepResult run(const mesh::StepRequest& request) {
    std::vector<actors::Future<std::vector<mesh::StepReport>>> futures;
    for (auto& mesh : meshes_) futures.push_back(mesh.call<&Actor::run>(request));
    std::vector<mesh::StepReport> reports;
    for (auto& future : futures) {
      for (mesh::StepReport& report : future.get()) reports.push_back(std::move(report));
    }
    return mesh::combine(reports);
  }

 private:
  static actors::SystemOptions options(const std::string& name) {
    actors::SystemOptions result;
    result.name = name;
    return result;
  }

  const mesh::TrainingPlan& plan_;
  std::vector<std::unique_ptr<actors::System>> systems_;
  actors::System driver_;
  std::vector<actors::ActorMesh<Actor>> meshes_;
};

class DeviceActors : public testing::TestWithParam<Case> {};

TEST_P(DeviceActors, TrainAsInOneProcess) {
  const mesh::TrainingPlan plan = plan_of(GetParam(), "eager-1f1b", transfer::Strategy::kBroadcast);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining reference(plan, batches, 7);
  ActorTraining training(plan);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const mesh::StepResult expected = reference.run(train_step(step));
    const mesh::StepResult result = training.run(train_step(step));
    EXPECT_EQ(result.loss, expected.loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected.grad_norm) << "step " << step;
    EXPECT_EQ(result.reshard_bytes, expected.reshard_bytes);
  }
}

TEST(DeviceActor, AProgramForAnotherDeviceIsRefused) {
  const mesh::TrainingPlan plan = plan_of(master_cases()[1], "1f1b", transfer::Strategy::kBroadcast);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::DeviceEngine engine({transfer::DeviceId(0), transfer::HostId(0), 1, 1}, batches);
  EXPECT_THROW(engine.install(plan.train.programs[1]), Error);
  EXPECT_THROW(engine.initialize(1), Error);
}

INSTANTIATE_TEST_SUITE_P(Some, DeviceActors, testing::Values(master_cases()[1], master_cases()[4], master_cases()[7]),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::test
