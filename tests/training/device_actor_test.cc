// Tests programs on device actors, called over sockets with bytes over UCX, against one process
// over a loopback.

#include "mesh/executor/device_actor.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/system/system.h"
#include "core/log/log.h"
#include "core/ops/graph_builder.h"
#include "mesh/executor/open_collectives.h"
#include "mesh/program/stall.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/cluster_token.h"
#include "tests/support/detached_device.h"
#include "tests/support/fake_world/fake_collectives.h"
#include "tests/support/gpu_places.h"
#include "tests/support/thrown_error.h"
#include "tests/training/hand_schedules.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

/// Driver and one actor system per device, all in this process, connected by real sockets and UCX.
class ActorTraining {
 public:
  explicit ActorTraining(const mesh::TrainingPlan& plan, DeviceKind kind = DeviceKind::kCpu,
                         const mesh::Hardware& hardware = mesh::machine_hardware(),
                         Log log = Log::standard_error(LogLevel::kInfo))
      : plan_(plan), kind_(kind), log_(std::move(log)), driver_(options("driver")) {
    for (const mesh::DeviceMesh& mesh : plan.partition.meshes) {
      std::vector<actors::ProcessRef> processes;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        systems_.push_back(
            std::make_unique<actors::System>(options(mesh::device_name(mesh, rank))));
        systems_.back()->provide<mesh::DeviceActor>(
            mesh::make_device_actors(open_random_batches, hardware));
        processes.push_back(driver_.connect(systems_.back()->listen({"127.0.0.1", 0})));
      }
      meshes_.push_back(driver_.spawn_mesh<mesh::DeviceActor>(
          mesh.name(), mesh.shape(), processes,
          encode(RandomBatches::Config{kRows, kVocabulary, 11})));
    }
    open(1);
    for (const mesh::Program& program : plan.train.programs) {
      for (std::size_t m = 0; m < meshes_.size(); ++m) {
        if (const auto rank = plan.partition.meshes[mesh::MeshId(m)].rank_of(program.device))
          meshes_[m].rank(*rank).call<&mesh::DeviceActor::install>(program).get();
      }
    }
    for (auto& mesh : meshes_) mesh.call<&mesh::DeviceActor::initialize>(std::uint64_t{7}).get();
  }

  /// Connects all devices for an epoch. Each epoch has its own secret.
  void open(std::uint64_t epoch) {
    const Secret secret = Secret::random();
    std::vector<transfer::PeerAddress> addresses;
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      std::vector<mesh::DeviceSetup> setups;
      for (const transfer::DeviceId device : plan_.partition.meshes[mesh::MeshId(m)].devices())
        setups.push_back({{device, plan_.topology.host_of(device), epoch}, {.kind = kind_}});
      for (mesh::DeviceSetup& setup : setups) setup.data.secret = secret.bytes();
      const auto opened = meshes_[m].scatter<&mesh::DeviceActor::open>(setups).get();
      for (std::size_t i = 0; i < opened.size(); ++i)
        addresses.push_back({setups[i].data.device, setups[i].data.host, opened[i]});
    }
    for (auto& mesh : meshes_) mesh.call<&mesh::DeviceActor::connect>(addresses).get();
    ledger_.clear();
    mesh::open_communicators(meshes_, plan_, ledger_);
  }

  actors::Future<std::vector<mesh::StepReport>> start(std::size_t mesh,
                                                      const mesh::StepRequest& request) {
    return meshes_[mesh].call<&mesh::DeviceActor::run>(request);
  }
  /// Returns the position that the I/O thread reports, even if the device thread is busy.
  mesh::ProgramPosition position(std::size_t mesh) {
    return meshes_[mesh].ref().reports<mesh::DeviceProgress>().get().at(0).value().position;
  }

  void cancel_collectives(std::size_t mesh, const std::string& why) {
    meshes_[mesh].call<&mesh::DeviceActor::cancel_collectives>(why).get();
  }

  mesh::StepResult run(const mesh::StepRequest& request) {
    std::vector<actors::Future<std::vector<mesh::StepReport>>> futures;
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      futures.push_back(start(mesh, request));
    std::vector<mesh::StepReport> reports;
    for (auto& future : futures) {
      for (mesh::StepReport& report : future.get()) reports.push_back(std::move(report));
    }
    return mesh::combine(reports);
  }

 private:
  actors::SystemOptions options(const std::string& name) const {
    actors::SystemOptions result;
    result.name = name;
    result.token = test::cluster_token();
    result.log = log_;
    return result;
  }

  const mesh::TrainingPlan& plan_;
  const DeviceKind kind_;
  const Log log_;
  std::vector<std::unique_ptr<actors::System>> systems_;
  actors::System driver_;
  mesh::DeviceActorMeshes meshes_;
  transfer::CommunicatorCache ledger_;
};

class DeviceActors : public testing::TestWithParam<Case> {};

TEST_P(DeviceActors, TrainAsInOneProcess) {
  const mesh::TrainingPlan plan =
      plan_of(GetParam(), "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast);
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
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[1], "1f1b", transfer::ReshardAlgorithm::kBroadcast);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::DeviceSetup setup{.data = {transfer::DeviceId(0), transfer::HostId(0), 1}};
  setup.data.secret = test::cluster_token().bytes();
  mesh::DeviceEngine engine(setup, batches);
  EXPECT_THAT([&] { engine.install(plan.train.programs[1]); },
              throws_error(ErrorCode::kInvalidArgument, "but this is device 0"));
  EXPECT_THAT([&] { engine.initialize(1); },
              throws_error(ErrorCode::kFailedPrecondition,
                           "install a program 'train' before initialize()"));
}

TEST(DeviceActor, SaysWhereItStandsWhileItsStepWaits) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[1], "1f1b", transfer::ReshardAlgorithm::kBroadcast);
  ActorTraining training(plan);
  auto first = training.start(0, train_step(0));
  // The first stage runs its two forwards, then waits for a gradient that is not computed yet.
  const auto waits_for_gradient = [&] {
    const mesh::ProgramPosition at = training.position(0);
    const std::string text = mesh::explain_stall(plan.train.programs, {at.instruction, 0});
    return text.find(
               "mesh0[0,0] is in stage 0, backward of microbatch 0 (next: forward of microbatch "
               "2): waits for") != std::string::npos &&
           text.find("every other device waits for mesh1[0,0]") != std::string::npos;
  };
  bool found = false;
  for (int i = 0; i < 10000 && !found; ++i) found = waits_for_gradient();
  EXPECT_TRUE(found);
  auto second = training.start(1, train_step(0));
  first.get();
  second.get();
  EXPECT_EQ(training.position(0).instruction, plan.train.programs[0].instructions.size());
}

/// Builds four emulated blocks in a U shape that take a tenth of a millisecond each.
mesh::ModelGraphs emulated_u() {
  GraphBuilder b;
  const ValueId tokens =
      b.input("tokens", {DType::kI32, {kRows, kSequence}}, {"batch", "sequence"});
  const ValueId targets =
      b.input("targets", {DType::kI32, {kRows, kSequence}}, {"batch", "sequence"});
  const auto weights = [&](const std::string& name) {
    return b.parameter(name, {64}, zeros(), {"weights"});
  };
  ValueId x =
      b.embedding(b.parameter("table", {kVocabulary, 8}, zeros(), {"vocab", "embed"}), tokens);
  std::vector<ValueId> skips;
  for (int block = 0; block < 4; ++block) {
    b.set_block(block);
    const auto scope = b.scope("block" + std::to_string(block));
    std::vector<ValueId> inputs{x};
    if (block >= 2) inputs.push_back(skips[3 - block]);
    x = b.emulated_block(inputs, weights("w"), {{kSequence, 16}, 1e-4, 1e-4, 1e-4, 32});
    if (block < 2) skips.push_back(b.emulated_block({x}, weights("skip"), {{40}, 0, 0, 0, 0}));
  }
  const ValueId logits =
      b.emulated_block({x}, weights("head"), {{kSequence, kVocabulary}, 0, 0, 0, 0});
  const ValueId loss = b.cross_entropy(logits, targets, 1.0);
  const Graph graph = std::move(b).finish();
  return {differentiate(graph, loss), graph, loss};
}

TEST(EmulatedDevices, RunTheProgramsOfASyntheticModelWithSkipEdges) {
  const Case c{"u", {{1, 1}, {2, 1}}, {2, 2}, false};
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  layout.own_schedule = zb_h1();
  const mesh::TrainingPlan plan = mesh::make_training_plan(layout, emulated_u(), places_of(c));
  EXPECT_EQ(plan.train.edges.size(), 6u);
  ActorTraining training(plan, DeviceKind::kEmulated);
  for (std::uint64_t step = 0; step < 2; ++step) {
    const mesh::StepResult result = training.run(train_step(step));
    EXPECT_EQ(result.loss, 0);
    EXPECT_GT(result.reshard_bytes, 0u);
  }
}

/// Gives each device actor of this process a fake GPU. Borrows the world.
mesh::Hardware fake_gpus(FakeWorld& world) {
  return {[](const mesh::DeviceSetup&) { return std::make_unique<DetachedDevice>(); },
          [&world](const mesh::DeviceSetup& setup) {
            mesh::DeviceLibrary library;
            library.place = gpu_places(setup.data.device.value() + 1).back();
            library.collectives =
                std::make_unique<FakeWorld::Collectives>(world, setup.data.device.value());
            return library;
          }};
}

mesh::TrainingPlan plan_for_gpus(const Case& c) {
  return mesh::make_training_plan(layout_of(c, "eager-1f1b", transfer::ReshardAlgorithm::kWeft),
                                  small_gpt(), places_of(c), {.device_places = gpu_places(8)});
}

TEST_P(DeviceActors, ExchangeTensorsByDeviceCollectives) {
  const mesh::TrainingPlan plan = plan_for_gpus(GetParam());
  ASSERT_FALSE(plan.collectives.groups.empty());
  const mesh::TrainingPlan through_host =
      plan_of(GetParam(), "eager-1f1b", transfer::ReshardAlgorithm::kWeft);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining reference(through_host, batches, 7);
  FakeWorld world;
  ActorTraining training(plan, DeviceKind::kCpu, fake_gpus(world));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const mesh::StepResult expected = reference.run(train_step(step)),
                           result = training.run(train_step(step));
    EXPECT_EQ(result.loss, expected.loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected.grad_norm) << "step " << step;
  }
  EXPECT_GT(world.created(), 0u);
  EXPECT_EQ(world.error(), "");
}

/// Starts a step on the first mesh only and cancels it while it waits for the others.
void break_a_step(ActorTraining& training, const mesh::TrainingPlan& plan, std::uint64_t step) {
  auto first = training.start(0, train_step(step));
  while (training.position(0).instruction == plan.train.programs[0].instructions.size())
    std::this_thread::yield();  // not begun yet
  if (step % 2 == 0 && !plan.collectives.groups.empty())
    training.cancel_collectives(0, "a device is gone");
  first.cancel();
  EXPECT_THAT(
      [&] { first.get(); },
      throws_error(ErrorCode::kCancelled,
                   testing::AnyOf(testing::HasSubstr("was cancelled before all had answered"),
                                  testing::HasSubstr("a device is gone"))));
}

TEST_P(DeviceActors, GoOnInTheNextEpochWithTheirMemoryAndPrograms) {
  for (const bool gpus : {false, true}) {
    const mesh::TrainingPlan plan =
        gpus ? plan_for_gpus(GetParam())
             : plan_of(GetParam(), "eager-1f1b", transfer::ReshardAlgorithm::kWeft);
    const mesh::TrainingPlan through_host =
        plan_of(GetParam(), "eager-1f1b", transfer::ReshardAlgorithm::kWeft);
    RandomBatches batches({kRows, kVocabulary, 11});
    mesh::InProcessTraining reference(through_host, batches, 7);
    FakeWorld world;
    ActorTraining training(plan, DeviceKind::kCpu,
                           gpus ? fake_gpus(world) : mesh::machine_hardware());
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (step > 0) {
        break_a_step(training, plan, step);
        training.open(step + 1);
      }
      EXPECT_EQ(training.run(train_step(step)).loss, reference.run(train_step(step)).loss)
          << "step " << step << (gpus ? " by collectives" : "");
    }
    EXPECT_EQ(world.error(), "");
  }
}

TEST(DeviceActor, SeesThatAPeerOfItsCollectivesHasDied) {
  const mesh::TrainingPlan plan = plan_for_gpus(master_cases()[1]);
  FakeWorld world;
  ActorTraining training(plan, DeviceKind::kCpu, fake_gpus(world));
  training.run(train_step(0));
  auto first = training.start(0, train_step(1));
  while (!training.position(0).collective) std::this_thread::yield();
  const mesh::ProgramPosition at = training.position(0);
  EXPECT_NE(
      mesh::explain_stall(plan.train.programs, {at.instruction, 0}, {at.collective, std::nullopt})
          .find("waits for '"),
      std::string::npos);
  world.kill(1);
  EXPECT_THAT([&] { first.get(); }, throws_error(ErrorCode::kPeerDied, "(the device is at '"));
}

TEST(DeviceActor, IsToldToEndCollectivesThatWaitForADeadDevice) {
  const mesh::TrainingPlan plan = plan_for_gpus(master_cases()[1]);
  FakeWorld world({.sees_death = false});
  ActorTraining training(plan, DeviceKind::kCpu, fake_gpus(world));
  auto first = training.start(0, train_step(0));
  while (!training.position(0).collective) std::this_thread::yield();
  training.cancel_collectives(0, "device 1 is gone");
  EXPECT_THAT([&] { first.get(); }, throws_error(ErrorCode::kCancelled, "device 1 is gone"));
}

mesh::Hardware noting_devices() {
  return {[](const mesh::DeviceSetup&) {
            return std::make_unique<DetachedDevice>(DetachedOptions{
                .shuffle_seed = 0, .notes = {"a library refuses this", "and that"}});
          },
          [](const mesh::DeviceSetup&) { return mesh::DeviceLibrary(); }};
}

TEST(DeviceActor, LogsOnceWhatItsDeviceNotes) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[1], "1f1b", transfer::ReshardAlgorithm::kWeft);
  std::mutex mutex;
  std::map<std::string, int> lines;
  const Log log(LogLevel::kInfo, [&](LogLevel level, const std::string& line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kInfo) ++lines[line];
  });
  {
    ActorTraining training(plan, DeviceKind::kCpu, noting_devices(), log);
    for (std::uint64_t step = 0; step < 3; ++step) training.run(train_step(step));
  }
  int notes = 0;
  for (const auto& [line, count] : lines) {
    if (!line.ends_with(": a library refuses this") && !line.ends_with(": and that")) continue;
    EXPECT_EQ(count, 1) << line;
    ++notes;
  }
  EXPECT_EQ(notes, 4) << "two of each device";
}

INSTANTIATE_TEST_SUITE_P(Some, DeviceActors,
                         testing::Values(master_cases()[1], master_cases()[4], master_cases()[7]),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft::test
