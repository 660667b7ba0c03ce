// Tests the tool build/bin/weft-hosts, which makes hosts of namespaces, and Weft on these hosts.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

/// Session of hosts of its own. Skips the test if this machine cannot make hosts.
class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto& check = processes_.run("weft-hosts", {"check"});
    if (check.wait() != 0) GTEST_SKIP() << check.text();
  }
  void TearDown() override { hosts({"down"}); }

  /// Starts the tool with this test's session.
  RealProcesses::Process& start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--session", session_});
    return processes_.start("weft-hosts", arguments);
  }
  RealProcesses::Process& hosts(std::vector<std::string> arguments) {
    RealProcesses::Process& process = start(std::move(arguments));
    process.wait();
    return process;
  }
  RealProcesses::Process& shell(const std::string& host, const std::string& script) {
    return hosts({"run", host, "bash", "-c", script});
  }
  std::string address(const std::string& host) {
    std::string text = hosts({"address", host}).text();
    text.pop_back();
    return text;
  }
  /// Returns the bytes that eth0 of a host has sent.
  std::uint64_t sent(const std::string& host) {
    const std::string text = hosts({"bytes", host}).text();
    return std::stoull(text.substr(text.find(' ')));
  }
  /// Starts a head on host 0, joins host 1 to it, and starts a GPT run there whose checkpoint has
  /// 5.6 MB.
  RealProcesses::Process& start_run_on_host1(const std::string& name, int steps,
                                             const std::string& no_progress) {
    const std::string weft = RealProcesses::program("weft").string();
    auto& head =
        start({"run", "0", weft, "head", "--listen", address("0") + ":0", "--state", "state"});
    const std::string listens = head.word_after("Weft's head listens on ");
    start({"run", "1", weft, "join", listens}).word_after("has joined cluster");
    processes_.write(name + ".yaml", fmt::format(R"(name: {}
app: gpt
cluster: {{launcher: manual, hosts: [{{name: host1}}], no_progress: {}}}
meshes: {{front: {{hosts: [host1], shape: {{tensor: 1}}}}}}
pipeline: {{stages: [{{mesh: front, layers: 2}}], microbatches: 1}}
training: {{steps: {}, batch: 4, learning_rate: 1e-3}}
model: {{layers: 2, width: 128, heads: 2, sequence: 64}}
data: {{text: kjv, tokenizer: bytes}}
)",
                                                 name, no_progress, steps));
    return start({"run", "0", weft, "run", name + ".yaml", "--head", listens});
  }
  std::filesystem::path state() const {
    return std::filesystem::path("/run/weft-hosts") / session_;
  }
  pid_t keeper() const { return std::stoi(read_file(state() / "keeper")); }

  RealProcesses processes_{"hosts"};
  const std::string session_ = fmt::format("test.{}.{}", ::getpid(), monotonic_ns());
};

/// Port of this machine that reads and discards data.
class Sink {
 public:
  Sink() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    ::listen(socket_, 16);  // on a port of the system's choice
    socklen_t size = sizeof own_;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own_), &size);
  }
  ~Sink() { ::close(socket_); }
  int port() const { return ntohs(own_.sin_port); }
  /// Returns the number of bytes of one connection, read to its end. Empty if no connection or no
  /// data comes for `within`.
  std::optional<std::uint64_t> take(std::chrono::milliseconds within = kPatience) const {
    if (!readable(socket_, within)) return std::nullopt;
    const int connection = ::accept(socket_, nullptr, nullptr);
    std::vector<char> buffer(1 << 16);
    std::uint64_t total = 0;
    ssize_t got = -1;
    while (readable(connection, within) &&
           (got = ::read(connection, buffer.data(), buffer.size())) > 0)
      total += got;
    ::close(connection);
    return got == 0 ? std::optional(total) : std::nullopt;
  }

 private:
  static bool readable(int socket, std::chrono::milliseconds within) {
    pollfd waiting{socket, POLLIN, 0};
    return ::poll(&waiting, 1, within.count()) == 1;
  }

  int socket_;
  sockaddr_in own_{};
};

TEST_F(Hosts, HaveTheirOwnNamesProcessesAndInterfaces) {
  ASSERT_THAT(hosts({"up", "3", "--nics", "2"}).text(), HasSubstr("host2 none 198.18."));
  EXPECT_EQ(shell("host1", "hostname; ls /sys/class/net; readlink /proc/1/exe; ls /dev/shm | wc -l")
                .text(),
            "host1\neth0\neth1\nlo\n/usr/bin/bash\n0\n");
  EXPECT_THAT(shell("2", "cat /etc/hosts").text(), HasSubstr(address("0") + " host0\n"));
  EXPECT_THAT(hosts({"run", "host7", "true"}).text(), HasSubstr("there is no host 'host7'"));
  const auto& again = hosts({"up", "2"});
  EXPECT_THAT(again.text(), HasSubstr("is up already"));
}

TEST(Sink, GivesUpWithoutAConnection) { EXPECT_EQ(Sink().take(10ms), std::nullopt); }

TEST_F(Hosts, BytesPassTheShapedLinkAndAreCounted) {
  ASSERT_EQ(hosts({"up", "2", "--rate", "80mbit"}).wait(), 0);
  const Sink sink;
  auto& sender = start(
      {"run", "0", "bash", "-c",
       fmt::format("head -c 3000000 /dev/zero > /dev/tcp/{}/{}", address("outer"), sink.port())});
  const std::optional<std::uint64_t> taken = sink.take();
  EXPECT_EQ(sender.wait(), 0) << sender.text();
  EXPECT_EQ(taken, 3'000'000u) << sender.text();
  EXPECT_GE(sent("0"), 3'000'000u);
  EXPECT_LE(sent("0"), 3'300'000u);
  EXPECT_LE(sent("1"), 100'000u);
  const std::string shaped = shell("0", "tc -s qdisc show dev eth0").text();
  EXPECT_THAT(shaped, HasSubstr("rate 80Mbit"));
  EXPECT_EQ(shaped.find("overlimits 0 "), std::string::npos) << "nothing had to wait: " << shaped;
  EXPECT_EQ(hosts({"limit", "0", "2gbit"}).wait(), 0);
  EXPECT_THAT(shell("0", "tc qdisc show dev eth0").text(), HasSubstr("rate 2Gbit"));
  EXPECT_THAT(hosts({"limit", "0", "fast"}).text(), HasSubstr("'fast' is no rate"));
  ASSERT_EQ(hosts({"limit", "0", "300kbit"}).wait(), 0);
  const std::string slow = shell("0", "tc qdisc show dev eth0").text();
  std::smatch latency;
  ASSERT_TRUE(std::regex_search(slow, latency, std::regex(R"(lat ([0-9.]+)(ms|s)\b)"))) << slow;
  EXPECT_LE(std::stod(latency[1]) * (latency[2] == "s" ? 1 : 0.001), 3)
      << "a slow link keeps few seconds of traffic: " << slow;
}

TEST_F(Hosts, ConnectionsOfAnyMachineUseCubic) {
  std::ifstream available("/proc/sys/net/ipv4/tcp_available_congestion_control");
  const std::string names(std::istreambuf_iterator<char>(available), {});
  if (names.find("cubic") == std::string::npos)
    GTEST_SKIP() << "this kernel has no cubic, only " << names;
  ASSERT_EQ(hosts({"up", "2", "--nics", "2"}).wait(), 0);
  const Sink sink;
  const std::string connection = fmt::format("exec 3<>/dev/tcp/{}/{}; ss --tcp --info --no-header",
                                             address("outer"), sink.port());
  EXPECT_THAT(shell("1", connection).text(), HasSubstr(" cubic ")) << "not this machine's own";
  EXPECT_THAT(shell("1", "ip route show dev eth1").text(), HasSubstr("congctl cubic"));
  hosts({"cut", "1"});
  hosts({"mend", "1"});
  EXPECT_THAT(shell("1", connection).text(), HasSubstr(" cubic "));
}

TEST_F(Hosts, ACutHostReachesNoHostUntilItIsRestored) {
  ASSERT_EQ(hosts({"up", "2"}).wait(), 0);
  const Sink sink;
  const std::string script =
      fmt::format(" bash -c 'exec 3<>/dev/tcp/{}/{}'", address("outer"), sink.port());
  const std::string connect = "timeout 20" + script;
  EXPECT_EQ(shell("1", connect).wait(), 0);
  hosts({"cut", "1"});
  EXPECT_EQ(shell("1", "timeout 1" + script).wait(), 124);
  EXPECT_EQ(shell("0", connect).wait(), 0) << "the other one is as before";
  hosts({"mend", "1"});
  EXPECT_EQ(shell("1", connect).wait(), 0);
}

TEST_F(Hosts, StatusAndSignalsPassThrough) {
  ASSERT_EQ(hosts({"up", "1"}).wait(), 0);
  EXPECT_EQ(shell("0", "exit 7").wait(), 7);
  EXPECT_EQ(shell("0", "kill -SEGV $$").wait(), 128 + SIGSEGV);
  for (const int signal : {SIGTERM, SIGINT}) {
    auto& asked = start({"run", "0", "bash", "-c",
                         "trap 'echo asked; exit 9' TERM INT; echo here; sleep 100 & wait"});
    asked.word_after("here");
    ::kill(asked.pid, signal);
    EXPECT_EQ(asked.wait(), 9) << asked.text();
    EXPECT_EQ(asked.text(), "here\nasked\n") << "once";
  }
  auto& killed = start({"run", "0", "bash", "-c", "echo here; exec sleep 4321"});
  killed.word_after("here");
  ::kill(killed.pid, SIGKILL);
  // A zombie has no command line. Its new parent may leave it unreaped for a while.
  EXPECT_TRUE(eventually([&] {
    return shell("0", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").text().find("sleep 4321") ==
           std::string::npos;
  }));
}

TEST_F(Hosts, KilledKeeperLeavesNothing) {
  ASSERT_EQ(hosts({"up", "2", "--rate", "80mbit"}).wait(), 0);
  auto& busy = start({"run", "1", "bash", "-c", "echo here; sleep 1000"});
  busy.word_after("here");
  const std::string link = "/sys/class/net/weft" + read_file(state() / "outer").substr(0, 1);
  ASSERT_EQ(::kill(keeper(), SIGKILL), 0);
  EXPECT_EQ(busy.wait(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(state()); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(link); })) << link;
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Hosts, HeadJoinAndRunAsOnRealMachines) {
  ASSERT_EQ(hosts({"up", "3", "--rate", "100mbit"}).wait(), 0);
  const std::string weft = RealProcesses::program("weft").string();
  auto& head =
      start({"run", "0", weft, "head", "--listen", address("0") + ":0", "--state", "state"});
  const std::string listens = head.word_after("Weft's head listens on ");
  EXPECT_THAT(listens, StartsWith(address("0") + ":"));
  std::vector<RealProcesses::Process*> agents;
  for (const std::string host : {"1", "2"}) {
    agents.push_back(&start({"run", host, weft, "join", listens}));
    agents.back()->word_after("has joined cluster");
  }
  processes_.write("run.yaml",
                   "name: hello\napp: hello_mesh\ncluster: {launcher: manual, hosts: [{name: "
                   "host1}, {name: host2}]}\n");
  auto& run = hosts({"run", "0", weft, "run", "run.yaml", "--head", listens});
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr("hello one from greeters[row=1,column=0]"),
                                HasSubstr("hello slice from greeters[row=0,column=0]")));
  EXPECT_GT(sent("1"), 1000u);
  EXPECT_EQ(hosts({"run", "0", weft, "stop", "--head", listens}).wait(), 0);
  for (RealProcesses::Process* agent : agents) EXPECT_EQ(agent->wait(), 0) << agent->text();
  EXPECT_EQ(head.wait(), 0);
}

/// Returns the losses in a run's metrics as text, unparsed.
std::string losses_of(const std::filesystem::path& metrics) {
  std::istringstream lines(read_file(metrics));
  std::string line, losses;
  while (std::getline(lines, line)) {
    const std::size_t at = line.find("\"loss\":");
    losses += line.substr(at, line.find(',', at) - at) + "\n";
  }
  return losses;
}

TEST_F(Hosts, RunPlansItsTransfersForTheLinksThatThereAre) {
  ASSERT_EQ(hosts({"up", "4", "--rate", "150mbit"}).wait(), 0);
  const std::string weft = RealProcesses::program("weft").string();
  auto& head =
      start({"run", "0", weft, "head", "--listen", address("0") + ":0", "--state", "state"});
  const std::string listens = head.word_after("Weft's head listens on ");
  for (const std::string host : {"1", "2", "3"})
    start({"run", host, weft, "join", listens}).word_after("has joined cluster");
  const auto run = [&](const std::string& name,
                       const std::string& link) -> RealProcesses::Process& {
    processes_.write(name + ".yaml", fmt::format(R"(name: {1}
app: gpt
cluster: {{launcher: manual, hosts: [{{name: host1{0}}}, {{name: host2{0}}}, {{name: host3{0}}}]}}
meshes:
  front: {{hosts: [host1], shape: {{tensor: 1}}}}
  back: {{hosts: [host2, host3], shape: {{tensor: 2}}}}
sharding: {{heads: tensor, mlp: tensor}}
pipeline: {{stages: [{{mesh: front, layers: 1}}, {{mesh: back, layers: 1}}], microbatches: 2}}
training: {{steps: 9, batch: 64, learning_rate: 1e-3}}
model: {{layers: 2, width: 128, heads: 2, sequence: 64}}
data: {{text: kjv, tokenizer: bytes}}
)",
                                                 link, name));
    return hosts({"run", "0", weft, "run", name + ".yaml", "--head", listens});
  };
  auto& blind = run("blind", "");
  EXPECT_EQ(blind.wait(), 0) << blind.text();
  EXPECT_THAT(blind.text(), AllOf(HasSubstr("where the plan counted on 1.2 GiB/s"),
                                  HasSubstr("; transfers were planned again")));
  auto& told = run("told", ", link: 150mbit");
  EXPECT_EQ(told.wait(), 0) << told.text();
  EXPECT_EQ(told.text().find("planned again"), std::string::npos) << told.text();
  const std::string losses = losses_of(processes_.directory() / "runs/blind/metrics.jsonl");
  EXPECT_EQ(std::count(losses.begin(), losses.end(), '\n'), 9);
  EXPECT_EQ(losses, losses_of(processes_.directory() / "runs/told/metrics.jsonl"))
      << "sums do not depend on the plan";
}

TEST_F(Hosts, ACheckpointOverASlowLinkTakesManyTimesTheTimeWithoutProgressAndPasses) {
  ASSERT_EQ(hosts({"up", "2", "--rate", "2mbit"}).wait(), 0);
  // 5.6 MB take more than 20 s, and a chunk of 1 MiB more than four. A lost packet may cost a
  // second.
  auto& run = start_run_on_host1("slow", 2, "3s");
  EXPECT_EQ(run.wait(5 * kPatience), 0) << run.text();
  EXPECT_TRUE(
      std::filesystem::exists(processes_.directory() / "runs/slow/checkpoints/step-00000002"))
      << run.text();
}

TEST_F(Hosts, AStuckChunkIsReportedAndTheRunContinuesOverNewConnections) {
  ASSERT_EQ(hosts({"up", "2", "--rate", "4mbit"}).wait(), 0);
  ASSERT_EQ(shell("1", "ip link set dev eth0 gso_max_segs 1").text(), "")
      << "so that packets have their size on the link";
  // The checkpoint's 5.6 MB take 12 s.
  auto& run = start_run_on_host1("cut", 1, "5s");
  ASSERT_TRUE(eventually([&] { return sent("1") > 2'000'000; }))
      << sent("1") << " bytes; " << run.text();
  // Only small packets reach the driver's host from here on: heartbeats, but no tensors. New
  // connections learn the limit when they are made.
  ASSERT_EQ(shell("0", "ip link set dev eth0 mtu 600").text(), "");
  EXPECT_EQ(run.wait(5 * kPatience), 0) << run.text();
  EXPECT_THAT(run.text(),
              AllOf(HasSubstr("of a checkpoint is stuck: no device has made progress for "),
                    HasSubstr("and none is running an op"), HasSubstr("; back at step 0 after ")));
}

/// Two hosts, 10.9.0.1 and 10.9.0.2, on a virtual network of unknown speed. Tests add interfaces.
class Networks : public Hosts {
 protected:
  void up() {
    ASSERT_EQ(hosts({"up", "2"}).wait(), 0);
    for (const int host : {0, 1})
      command(host, fmt::format("ip link add virt0 type vxlan id 5 dstport 4789 local {} remote {} "
                                "&& ip addr add 10.9.0.{}/24 dev virt0 && ip link set virt0 up",
                                address(std::to_string(host)), address(std::to_string(1 - host)),
                                host + 1));
  }
  void command(int host, const std::string& script) {
    auto& process = shell(std::to_string(host), script);
    ASSERT_EQ(process.wait_status, 0) << process.text();
  }
  /// Adds an interface that reports 10 Gbit/s and is connected to no other host.
  void add_dead_end(int host, const std::string& name, const std::string& own_address) {
    command(host, fmt::format("ip link add {0} type bridge && ip addr add {1} dev {0} && "
                              "ip link add v-{0} type veth peer name w-{0} && "
                              "ip link set v-{0} master {0} && ip link set v-{0} up && "
                              "ip link set w-{0} up && ip link set {0} up",
                              name, own_address));
  }
  /// Starts a head on host 0 and an agent on each host, connected by virt0.
  void start_cluster() {
    auto& head = start({"run", "0", weft_, "head", "--listen", "10.9.0.1:0", "--state", "state"});
    listens_ = head.word_after("Weft's head listens on ");
    for (const std::string host : {"0", "1"})
      start({"run", host, weft_, "join", listens_}).word_after("has joined cluster");
  }
  RealProcesses::Process& run_on_both(const std::string& of_hosts = "",
                                      const std::string& recovery = "restarts: 0") {
    processes_.write("run.yaml", fmt::format(R"(name: networks
app: gpt
cluster: {{launcher: manual, hosts: [{{name: host0{0}}}, {{name: host1{0}}}]}}
meshes:
  front: {{hosts: [host0], shape: {{data: 1}}}}
  back: {{hosts: [host1], shape: {{data: 1}}}}
pipeline: {{stages: [{{mesh: front, layers: 1}}, {{mesh: back, layers: 1}}], microbatches: 2}}
training: {{steps: 5, batch: 4, learning_rate: 1e-3}}
checkpoint: {{every: 0}}
model: {{layers: 2, width: 16, heads: 2, sequence: 16}}
data: {{text: kjv, tokenizer: bytes}}
recovery: {{{1}}}
)",
                                             of_hosts, recovery));
    return hosts({"run", "0", weft_, "run", "run.yaml", "--head", listens_});
  }

  const std::string weft_ = RealProcesses::program("weft").string();
  std::string listens_;
};

TEST_F(Networks, BridgesOfContainersAreNotUsed) {
  up();
  for (const int host : {0, 1}) add_dead_end(host, "docker0", "172.17.0.1/16");
  start_cluster();
  auto& run = run_on_both();
  EXPECT_EQ(run.wait(), 0) << run.text();
}

TEST_F(Networks, ABridgeOnOneHostIsNotUsed) {
  up();
  add_dead_end(0, "virbr0", "192.168.122.1/24");
  start_cluster();
  auto& run = run_on_both();
  EXPECT_EQ(run.wait(), 0) << run.text();
}

TEST_F(Networks, ASecondNetworkThatLeadsNowhereIsNotUsed) {
  up();
  for (const int host : {0, 1}) add_dead_end(host, "fast0", fmt::format("10.8.0.{}/24", host + 1));
  start_cluster();
  auto& run = run_on_both();
  EXPECT_EQ(run.wait(), 0) << run.text();
}

TEST_F(Networks, TheRunFileChoosesAndAnErrorNamesAddressesAndSetting) {
  up();
  for (const int host : {0, 1}) add_dead_end(host, "fast0", fmt::format("10.8.0.{}/24", host + 1));
  start_cluster();
  auto& good = run_on_both(", interface: eth0");
  EXPECT_EQ(good.wait(), 0) << good.text();
  EXPECT_GT(sent("1"), 20'000u);
  auto& bad = run_on_both(", interface: eth7");
  EXPECT_EQ(bad.wait(), 1) << bad.text();
  EXPECT_THAT(bad.text(), AllOf(HasSubstr("eth7, which has no address"),
                                HasSubstr("cluster.hosts: {interface: NAME}")));
}

TEST_F(Networks, AHostOnLoopbackIsRefusedWhereAnotherIsNot) {
  up();
  auto& head = start({"run", "0", weft_, "head", "--listen", "0.0.0.0:0", "--state", "state"});
  const std::string listens = head.word_after("Weft's head listens on ");
  const std::string port = listens.substr(listens.rfind(':'));
  EXPECT_TRUE(eventually([&] {
    return head.text().find("weft join 10.9.0.1" + port) != std::string::npos;
  })) << head.text();
  EXPECT_THAT(head.text(), AllOf(HasSubstr("reached at 10.9.0.1" + port + " (virt0)"),
                                 HasSubstr("weft join " + address("0") + port)));
  start({"run", "1", weft_, "join", "10.9.0.1" + port}).word_after("has joined cluster");
  auto& local = hosts({"run", "0", weft_, "join", "127.0.0.1" + port});
  EXPECT_EQ(local.wait(), 1);
  EXPECT_THAT(local.text(),
              HasSubstr("host 'host0' uses the loopback address 127.0.0.1, which host "
                        "'host1' at 10.9.0.2 cannot reach"));
  // A driver that reaches the head over loopback uses the hosts' network too.
  start({"run", "0", weft_, "join", "10.9.0.1" + port}).word_after("has joined cluster");
  listens_ = "127.0.0.1" + port;
  auto& run = run_on_both();
  EXPECT_EQ(run.wait(), 0) << run.text();
}

TEST(HostsWithoutRoot, AreRefusedWithStatus77) {
  if (::geteuid() != 0) GTEST_SKIP() << "everything else here says the same";
  RealProcesses processes("hosts_no_root");
  const auto tool = processes.directory() / "weft-hosts", output = processes.directory() / "output";
  std::filesystem::copy_file(RealProcesses::program("weft-hosts"), tool);
  const int status =
      std::system(fmt::format("setpriv --reuid 65534 --clear-groups {} up 2 > {} 2>&1",
                              tool.string(), output.string())
                      .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 77);
  EXPECT_THAT(read_file(output), HasSubstr("need root"));
}

}  // namespace
}  // namespace weft::test
