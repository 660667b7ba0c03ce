// Tests runs whose standard output is not read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

constexpr int kSteps = 30;

void write_run(const RealProcesses& processes) {
  processes.write(
      "run.yaml",
      fmt::format("name: unread\napp: {}\ncluster: {{hosts: [{{name: worker0, devices: 1}}]}}\n"
                  "meshes:\n  front: {{hosts: [worker0], shape: {{data: 1, tensor: 1}}}}\n"
                  "pipeline: {{stages: [{{mesh: front, layers: 3}}], microbatches: 4}}\n"
                  "training: {{steps: {}}}\n",
                  RealProcesses::program("training_app").string(), kSteps));
}

/// Pipe whose buffer is full.
class FullPipe final {
 public:
  FullPipe() {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string text(4096, '.');
    while (::write(ends_[1], text.data(), text.size()) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    hang_up();
    ::close(ends_[1]);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  int writer() const { return ends_[1]; }
  void hang_up() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Output, ATrainingWhoseReaderHasHungUpIsDone) {
  RealProcesses processes("hung_up");
  write_run(processes);
  FullPipe pipe;
  pipe.hang_up();
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"}, {}, pipe.writer());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(processes.directory() / "out" / "losses.json"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Output, ATrainingWhoseReaderNeverReadsIsDone) {
  RealProcesses processes("unread");
  write_run(processes);
  const FullPipe pipe;
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"}, {}, pipe.writer());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(processes.directory() / "out" / "losses.json"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Output, CtrlCEndsARunWhoseOutputIsNotRead) {
  RealProcesses processes("unread_ctrl_c");
  processes.write("run.yaml",
                  "name: unread\napp: cluster_app\ncluster: {hosts: [{name: worker0}]}\n"
                  "work: {actors: 1, seconds: 60}\n");
  const FullPipe pipe;
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"}, {}, pipe.writer());
  const auto logs = processes.directory() / "out" / "logs";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(logs / "front.1.r0.log"); }));
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(processes.none_left());
}

TEST(Output, AHeadAndAHostWhoseReadersHaveHungUpGoOn) {
  RealProcesses processes("unread_head");
  FullPipe pipe;
  pipe.hang_up();
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"}, {},
                               pipe.writer());
  const auto token = processes.directory() / "state" / "token";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(token); }));
  std::string port;
  ASSERT_TRUE(eventually([&] {
    const auto tokens = processes.directory() / "user_state" / "weft" / "tokens";
    std::error_code none;
    // A token is written under another name, and renamed to that of its port.
    for (const auto& each : std::filesystem::directory_iterator(tokens, none))
      if (const std::string name = each.path().filename();
          name.find_first_not_of("0123456789") == std::string::npos)
        port = name;
    return !port.empty();
  }));
  const std::string address = "127.0.0.1:" + port;
  auto& host = processes.start("weft", {"join", address, "--name", "alpha"}, {}, pipe.writer());
  EXPECT_TRUE(eventually([&] {
    return processes.run("weft", {"status", "--head", address}).text().find("alpha") !=
           std::string::npos;
  }));
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_EQ(head.wait(), 0);
  EXPECT_EQ(host.wait(), 0);
}

}  // namespace
}  // namespace weft::test
