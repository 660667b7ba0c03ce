// Tests the master test's plans on real processes: `weft run` must give the losses of the same plan
// in one process, bit for bit.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mesh/runtime/in_process_training.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

struct ProcessCase {
  std::size_t layout;
  std::string schedule;
  transfer::ReshardAlgorithm strategy;
  DType precision = DType::kF32;
};

constexpr int kSteps = 20;

/// Writes the run file. A mesh of several rows spans two hosts.
void write_config(const std::filesystem::path& path, const ProcessCase& c,
                  const std::string& more = "") {
  const Case layout = master_cases()[c.layout];
  std::ofstream out(path);
  out << "name: processes\napp: ./training_app\nseed: 7\ncluster:\n  hosts:\n";
  std::string meshes, stages;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    const auto [data, tensor] = layout.meshes[m];
    std::string hosts;
    for (int d = 0; d < data; ++d) {
      const std::string host = fmt::format("host{}", 2 * m + d);
      out << fmt::format("    - {{name: {}, devices: {}}}\n", host, tensor);
      hosts += (d == 0 ? "" : ", ") + host;
    }
    meshes += fmt::format("  mesh{}: {{hosts: [{}], shape: {{data: {}, tensor: {}}}}}\n", m, hosts,
                          data, tensor);
    stages += fmt::format("    - {{mesh: mesh{}, layers: {}}}\n", m, layout.layers[m]);
  }
  out << "meshes:\n" << meshes << "sharding: {batch: data, heads: tensor, mlp: tensor}\n";
  out << "pipeline:\n  stages:\n" << stages;
  out << fmt::format("  schedule: {}\n  microbatches: {}\n  resharding: {}\n", c.schedule,
                     kMicrobatches, transfer::to_string(c.strategy));
  out << fmt::format("training: {{steps: {}, precision: {}{}}}\n", kSteps, to_string(c.precision),
                     more);
}

/// Makes a folder with the app for a run file.
std::filesystem::path make_folder(const std::string& name) {
  const std::filesystem::path bin = std::filesystem::canonical("/proc/self/exe").parent_path();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("weft-processes-{}-{}", getpid(), name);
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(bin / "training_app", folder / "training_app");
  return folder;
}

/// Executes `weft run` in the folder. Returns its exit status and output.
std::pair<int, std::string> run_in(const std::filesystem::path& folder) {
  const std::filesystem::path bin = std::filesystem::canonical("/proc/self/exe").parent_path();
  const std::string command = fmt::format("cd {} && {} run run.yaml --out out > log 2>&1",
                                          folder.string(), (bin / "weft").string());
  const int status = std::system(command.c_str());
  std::ifstream log(folder / "log");
  return {status, std::string(std::istreambuf_iterator<char>(log), {})};
}

class Processes : public testing::TestWithParam<ProcessCase> {};

void expect_losses_as_in_one_process(const std::filesystem::path& folder, const ProcessCase& c) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[c.layout], c.schedule, c.strategy, c.precision);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining reference(plan, batches, 7);
  std::ifstream file(folder / "out" / "losses.json");
  const auto losses = nlohmann::json::parse(file);
  ASSERT_EQ(losses.size(), kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const mesh::StepResult expected = reference.run(train_step(step));
    EXPECT_EQ(losses[step].at("loss").get<double>(), expected.loss) << "step " << step;
    EXPECT_EQ(losses[step].at("grad_norm").get<double>(), expected.grad_norm) << "step " << step;
  }
}

TEST_P(Processes, TrainAsInOneProcess) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = test->name();
  for (char& letter : name) letter = letter == '/' ? '_' : letter;
  const std::filesystem::path folder = make_folder(name);
  write_config(folder / "run.yaml", GetParam());
  const auto [status, log] = run_in(folder);
  ASSERT_EQ(status, 0) << log;
  expect_losses_as_in_one_process(folder, GetParam());
  std::filesystem::remove_all(folder);
}

TEST(ChangedLayout, LossesStayAsTheyAreWhenScheduleAndReshardingChangeBetweenSteps) {
  const std::filesystem::path folder = make_folder("changed");
  const ProcessCase c{5, "1f1b", transfer::ReshardAlgorithm::kBroadcast};
  write_config(folder / "run.yaml", c, ", later: zb-h2");
  const auto [status, log] = run_in(folder);
  ASSERT_EQ(status, 0) << log;
  expect_losses_as_in_one_process(folder, c);
  std::filesystem::remove_all(folder);
}

TEST(Stall, AnOpThatTakesLongerThanTheLongestIsToldWithItsDeviceAndSinceWhen) {
  const std::filesystem::path folder = make_folder("stall");
  // The I/O thread keeps sending heartbeats, so that only longest_op ends the run.
  write_config(folder / "run.yaml", {1, "1f1b", transfer::ReshardAlgorithm::kBroadcast},
               ", stuck_from: 2, no_progress: 1s, longest_op: 3s");
  const auto [status, log] = run_in(folder);
  EXPECT_NE(status, 0);
  EXPECT_NE(log.find("step 2 of 'train': no progress for "), std::string::npos) << log;
  EXPECT_NE(log.find("step 2 of 'train' was stopped: mesh1[0,0] on host2 device 0 (pid "),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("has been running 'read 'targets'"), std::string::npos) << log;
  EXPECT_NE(log.find("' for "), std::string::npos) << log;
  std::ifstream events(folder / "out" / "events.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(events, line));
  const auto event = nlohmann::json::parse(line);
  EXPECT_EQ(event["kind"], "no progress");
  EXPECT_EQ(event["mesh"], "mesh1");
  EXPECT_EQ(event["host"], "host2");
  std::filesystem::remove_all(folder);
}

TEST(Stall, AnHonestOpManyTimesLongerThanTheTimeWithoutProgressPasses) {
  const std::filesystem::path folder = make_folder("long_op");
  const ProcessCase c{1, "1f1b", transfer::ReshardAlgorithm::kBroadcast};
  write_config(folder / "run.yaml", c, ", stuck_from: 19, stuck_for: 3s, no_progress: 500ms");
  const auto [status, log] = run_in(folder);
  EXPECT_EQ(status, 0) << log;
  EXPECT_NE(log.find("step 19 of 'train': no progress for"), std::string::npos) << log;
  expect_losses_as_in_one_process(folder, c);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    Some, Processes,
    testing::Values(ProcessCase{0, "1f1b", transfer::ReshardAlgorithm::kBroadcast},
                    ProcessCase{1, "gpipe", transfer::ReshardAlgorithm::kSendRecv},
                    ProcessCase{2, "eager-1f1b", transfer::ReshardAlgorithm::kLocalAllgather},
                    ProcessCase{3, "1f1b", transfer::ReshardAlgorithm::kBroadcast},
                    ProcessCase{4, "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast},
                    ProcessCase{4, "1f1b", transfer::ReshardAlgorithm::kSendRecv},
                    ProcessCase{5, "eager-1f1b", transfer::ReshardAlgorithm::kSendRecv},
                    ProcessCase{7, "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast},
                    ProcessCase{7, "1f1b", transfer::ReshardAlgorithm::kWeft, DType::kBF16},
                    ProcessCase{5, "auto", transfer::ReshardAlgorithm::kWeft}),
    [](const auto& test) {
      std::string name = master_cases()[test.param.layout].name + "_" + test.param.schedule + "_" +
                         std::string(transfer::to_string(test.param.strategy)) +
                         (test.param.precision == DType::kBF16 ? "_bf16" : "");
      for (char& letter : name)
        letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
      return name;
    });

}  // namespace
}  // namespace weft::test
