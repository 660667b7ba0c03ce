// Tests the same wires between two processes. The other process is this test program again, which
// WEFT_WIRE_CHILD tells to run the echo test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/contract/wire/wire_worlds.h"
#include "tests/support/cluster_token.h"
#include "transfer/wire_ucx/ucx_wire.h"

extern char** environ;

namespace weft::transfer {
namespace {

constexpr int kChildSocket = 3;

void write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    ASSERT_GT(n, 0);
    at += n;
    size -= n;
  }
}

bool read_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::read(fd, at, size);
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

void send_address(int fd, const std::vector<std::byte>& address) {
  const std::uint32_t size = address.size();
  write_all(fd, &size, sizeof(size));
  write_all(fd, address.data(), address.size());
}

std::vector<std::byte> receive_address(int fd) {
  std::uint32_t size = 0;
  if (!read_all(fd, &size, sizeof(size))) return {};
  std::vector<std::byte> address(size);
  if (!read_all(fd, address.data(), size)) return {};
  return address;
}

/// Runs device 1: sends every message back, until device 0 exits.
TEST(WireChild, DISABLED_Echo) {
  const char* host = std::getenv("WEFT_WIRE_CHILD");
  if (host == nullptr) GTEST_SKIP() << "only as the child of TwoProcesses";
  test::Recorder own(make_ucx_wire(DeviceId(1), HostId(std::atoi(host)),
                                   {.secret = test::cluster_token(), .interfaces = "lo"}));
  send_address(kChildSocket, own.wire->address());
  const auto address = receive_address(kChildSocket);
  ASSERT_FALSE(address.empty());
  own.wire->connect(DeviceId(0), HostId(0), address);
  if (std::getenv("WEFT_WIRE_STEPS") != nullptr) {
    // Progresses once for each byte, until the other process kills this one.
    for (char step = 0; read_all(kChildSocket, &step, 1);) {
      own.wire->progress();
      write_all(kChildSocket, &step, 1);
    }
    return;
  }
  struct Echo {
    std::vector<std::byte> header, payload;
  };
  std::map<Token, Echo> echoes;
  Token next = 0;
  own.at_once = [&](const test::Recorder::Kept& message) {
    echoes[next] = {message.header, std::vector<std::byte>(message.bytes)};
    own.wire->receive(message.id, echoes[next].payload, next);
    ++next;
  };
  while (own.lost.empty()) {
    if (own.wire->progress() == 0) own.wire->wait(std::chrono::milliseconds(50));
    for (const auto& [token, outcome] : own.receives) {
      if (outcome.front().ok())
        own.wire->send(DeviceId(0), echoes[token].header, echoes[token].payload, token);
    }
    own.receives.clear();
    for (const auto& [token, outcome] : own.sends) echoes.erase(token);
    own.sends.clear();
    char byte = 0;
    if (::recv(kChildSocket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
      break;  // the parent has
              // exited
  }
}

class TwoProcesses : public ::testing::TestWithParam<bool> {  // true: on one host
 protected:
  void SetUp() override {
    start();
    connect();
    EXPECT_EQ(own_->wire->path_to(DeviceId(1)), GetParam() ? Path::kSharedMemory : Path::kTcp);
  }
  /// Starts the other process, which connects. `stepwise`: it progresses in step() only.
  void start(bool stepwise = false) {
    const bool one_host = GetParam();
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    socket_ = sockets[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // dup2 onto the same descriptor would keep close-on-exec.
    const int child_end =
        sockets[1] == kChildSocket ? ::fcntl(sockets[1], F_DUPFD_CLOEXEC, 10) : sockets[1];
    posix_spawn_file_actions_adddup2(&actions, child_end, kChildSocket);
    std::vector<std::string> variables = {std::string("WEFT_WIRE_CHILD=") + (one_host ? "0" : "1")};
    if (stepwise) variables.emplace_back("WEFT_WIRE_STEPS=1");
    for (char** variable = environ; *variable != nullptr; ++variable)
      variables.emplace_back(*variable);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=WireChild.DISABLED_Echo",
                disabled = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), brief.data(), nullptr};
    ASSERT_EQ(
        posix_spawn(&child_, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(sockets[1]);
    if (child_end != sockets[1]) ::close(child_end);
    own_ = std::make_unique<test::Recorder>(make_ucx_wire(
        DeviceId(0), HostId(0), {.secret = test::cluster_token(), .interfaces = "lo"}));
    send_address(socket_, own_->wire->address());
    address_ = receive_address(socket_);
    ASSERT_FALSE(address_.empty());
  }
  void connect() { own_->wire->connect(DeviceId(1), HostId(GetParam() ? 0 : 1), address_); }
  /// Lets the other process progress once.
  void step() {
    char byte = 0;
    write_all(socket_, &byte, 1);
    ASSERT_TRUE(read_all(socket_, &byte, 1));
  }
  void TearDown() override { end(); }
  void end() {
    own_.reset();
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    const pid_t child = std::exchange(child_, -1);
    if (child <= 0) return;
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(killed_ || status == 0) << "the other process did not end well";
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + test::kPatience;
    while (!done()) {
      if (own_->wire->progress() == 0) own_->wire->wait(std::chrono::milliseconds(50));
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return true;
  }

  std::unique_ptr<test::Recorder> own_;
  std::vector<std::byte> address_;  // of the other process
  int socket_ = -1;
  pid_t child_ = -1;
  bool killed_ = false;
};

TEST_P(TwoProcesses, MessagesOfAllSizesComeBackAsTheyWere) {
  std::mt19937_64 random(3);
  std::map<Token, std::vector<std::byte>> sent, got;
  own_->at_once = [&](const test::Recorder::Kept& message) {
    Token token = 0;
    std::memcpy(&token, message.header.data(), sizeof(token));
    got[token].resize(message.bytes);
    own_->wire->receive(message.id, got[token], token);
  };
  constexpr Token kCount = 200;
  for (Token token = 0; token < kCount; ++token) {
    auto& payload = sent[token];
    payload.resize(std::array<std::size_t, 6>{0, 1, 1000, 17000, 100000,
                                              3000000}[token < 6 ? token : random() % 5]);
    for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
    own_->wire->send(DeviceId(1), std::as_bytes(std::span(&token, 1)), payload, token);
  }
  ASSERT_TRUE(
      until([&] { return own_->receives.size() == kCount && own_->sends.size() == kCount; }));
  for (Token token = 0; token < kCount; ++token) {
    ASSERT_TRUE(own_->sends[token].front().ok() && own_->receives[token].front().ok());
    ASSERT_EQ(got[token], sent[token]) << "token " << token;
  }
}

TEST_P(TwoProcesses, KillingTheOtherProcessEndsEverythingWithIt) {
  std::vector<std::byte> small(8), large(8 << 20);
  own_->wire->send(DeviceId(1), small, small, 0);
  ASSERT_TRUE(until([&] { return !own_->arrived.empty(); })) << "the connection stands";
  own_->wire->release(own_->arrived.front().id);
  ASSERT_EQ(::kill(child_, SIGSTOP), 0);  // ensures that the sends are in flight
  for (Token token = 1; token <= 4; ++token) own_->wire->send(DeviceId(1), small, large, token);
  for (int i = 0; i < 10; ++i) own_->wire->progress();
  killed_ = true;
  ASSERT_EQ(::kill(child_, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return own_->lost.contains(DeviceId(1)) && own_->sends.size() == 5; }));
  for (Token token = 1; token <= 4; ++token) EXPECT_FALSE(own_->sends[token].front().ok());
  EXPECT_EQ(own_->lost[DeviceId(1)].size(), 1u);
}

TEST_P(TwoProcesses, DroppingADeadPeerEndsEverythingWithItAtOnce) {
  std::vector<std::byte> small(8), large(8 << 20);
  own_->wire->send(DeviceId(1), small, small, 0);
  ASSERT_TRUE(until([&] { return !own_->arrived.empty(); }));
  own_->wire->release(own_->arrived.front().id);
  ASSERT_EQ(::kill(child_, SIGSTOP), 0);
  for (Token token = 1; token <= 4; ++token) own_->wire->send(DeviceId(1), small, large, token);
  for (int i = 0; i < 10; ++i) own_->wire->progress();
  killed_ = true;
  ASSERT_EQ(::kill(child_, SIGKILL), 0);
  own_->wire->drop(DeviceId(1));
  ASSERT_TRUE(until([&] { return own_->sends.size() == 5; }));
  for (Token token = 1; token <= 4; ++token)
    EXPECT_EQ(own_->sends[token].front().error().code(), ErrorCode::kCancelled);
}

// UCX 1.13.1 aborted this process at some of these steps.
class KilledProcess : public TwoProcesses {
  void SetUp() override {}
};

TEST_P(KilledProcess, AKillAtAnyStepOfConnectingOnlyLosesThePeer) {
  const std::vector<std::byte> small(8), large(8 << 20);
  for (const bool early : {true, false}) {
    for (int steps = 0; steps < 7; ++steps) {
      SCOPED_TRACE(fmt::format("steps {}, {}", steps, early ? "early" : "late"));
      start(true);
      if (early) connect();
      for (int i = 0; i < steps; ++i) {
        step();
        own_->wire->progress();
      }
      killed_ = true;
      ASSERT_EQ(::kill(child_, SIGKILL), 0);
      siginfo_t ended = {};
      ASSERT_EQ(::waitid(P_PID, child_, &ended, WEXITED | WNOWAIT), 0);
      bool refused = false;
      try {
        connect();
      } catch (const Error& error) {
        refused = error.code() == ErrorCode::kUnavailable;
      }
      own_->wire->send(DeviceId(1), small, small, 1);
      own_->wire->send(DeviceId(1), small, large, 2);
      EXPECT_TRUE(until([&] {
        return own_->sends.size() == 2 && (refused || own_->lost.contains(DeviceId(1)));
      }));
      end();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ucx, KilledProcess, ::testing::Values(false, true),
                         [](const auto& kind) { return kind.param ? "Shm" : "Tcp"; });
INSTANTIATE_TEST_SUITE_P(Ucx, TwoProcesses, ::testing::Values(false, true),
                         [](const auto& kind) { return kind.param ? "Shm" : "Tcp"; });

}  // namespace
}  // namespace weft::transfer
