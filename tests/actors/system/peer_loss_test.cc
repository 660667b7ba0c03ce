#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/system/system.h"
#include "tests/actors/system/oracle.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;

/// Class with the interface name of Oracle and another method, as in another build.
class OtherOracle final {
 public:
  explicit OtherOracle(Context&) {}
  int answer(const std::string& question) const { return question.size(); }
  static constexpr auto endpoints = interface<"test.oracle", 1>(on<&OtherOracle::answer>("answer"));
};

/// Relay between one client and a server that can drop or stall the connection.
class Proxy final {
 public:
  explicit Proxy(const Address& server) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = loopback(0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    socklen_t size = sizeof(at);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    address_ = {"127.0.0.1", ntohs(at.sin_port)};
    thread_ = std::jthread([this, server](const std::stop_token& stop) { run(stop, server); });
  }
  ~Proxy() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }
  const Address& address() const { return address_; }
  /// Closes both connections.
  void cut() { mode_ = kCut; }
  /// Keeps the connections open but forwards no bytes.
  void stall() { mode_ = kStall; }

 private:
  enum Mode { kPass, kStall, kCut };
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  void run(const std::stop_token& stop, const Address& server) {
    int client = -1, upstream = -1;
    while (!stop.stop_requested() && mode_ != kCut) {
      pollfd wait[3] = {{listener_, POLLIN, 0}, {client, POLLIN, 0}, {upstream, POLLIN, 0}};
      ::poll(mode_ == kStall ? nullptr : wait, mode_ == kStall ? 0 : 3, 1);
      if (mode_ == kStall) continue;
      if (wait[0].revents != 0 && client < 0) {
        client = ::accept(listener_, nullptr, nullptr);
        upstream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in to = loopback(server.port);
        EXPECT_EQ(::connect(upstream, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
      }
      if (wait[1].revents != 0 && !pass(client, upstream)) break;
      if (wait[2].revents != 0 && !pass(upstream, client)) break;
    }
    if (client >= 0) ::close(client);
    if (upstream >= 0) ::close(upstream);
  }
  static bool pass(int from, int to) {
    char bytes[65536];
    const ssize_t count = ::recv(from, bytes, sizeof(bytes), 0);
    return count > 0 && ::send(to, bytes, count, MSG_NOSIGNAL) == count;
  }

  int listener_;
  Address address_;
  std::atomic<Mode> mode_{kPass};
  std::jthread thread_;
};

struct PeerLoss : testing::Test {
  std::mutex mutex;
  std::vector<std::string> lost;
  std::vector<std::string> suspected;
  std::optional<System> worker, driver;
  std::optional<Proxy> proxy;
  ProcessRef worker_ref;
  ActorRef<Oracle> oracle;

  void start(SystemOptions driver_options = of_gpt("driver"),
             SystemOptions worker_options = of_gpt("worker0")) {
    Oracle::pondering = 0;
    worker.emplace(std::move(worker_options));
    proxy.emplace(worker->listen({"127.0.0.1", 0}));
    driver.emplace(std::move(driver_options));
    driver->on_peer_disconnected(
        [this](const ProcessRef& process, const Error& error, DisconnectCause) {
          const std::lock_guard lock(mutex);
          lost.push_back(process.name + ": " + error.message());
        });
    driver->on_peer_eof([this](const ProcessRef& process) {
      const std::lock_guard lock(mutex);
      suspected.push_back(process.name);
    });
    worker_ref = driver->connect(proxy->address());
    (void)worker->host<Oracle>("oracle");
    oracle = driver->named<Oracle>(worker_ref, "oracle");
    EXPECT_EQ(oracle.call<&Oracle::answer>(1).get(), 2);
  }
  std::size_t lost_count() {
    const std::lock_guard lock(mutex);
    return lost.size();
  }
  std::size_t suspected_count() {
    const std::lock_guard lock(mutex);
    return suspected.size();
  }
  void TearDown() override {
    driver.reset();
    proxy.reset();
    worker.reset();
  }
};

TEST_F(PeerLoss, ALostConnectionFailsTheCallsAfterTheGraceAndSaysWhatIsKnown) {
  start();
  auto pondering = oracle.call<&Oracle::ponder>();
  EXPECT_TRUE(eventually([] { return Oracle::pondering == 1; }));
  const auto cut_at = std::chrono::steady_clock::now();
  proxy->cut();
  const Error error = error_of([&] { (void)pondering.get(); });
  EXPECT_GE(std::chrono::steady_clock::now() - cut_at, 200ms);
  EXPECT_EQ(error.code(), ErrorCode::kPeerDied);
  for (const char* part : {"worker0", "gpt, pid", "lost",
                           "your call 'ponder' had been sent; whether it ran is unknown"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  EXPECT_TRUE(eventually([&] { return lost_count() == 1; }));
  EXPECT_EQ(suspected_count(), 1u);
}

TEST_F(PeerLoss, BetterEvidenceWithinTheGraceReplacesConnectionLost) {
  auto options = of_gpt("driver");
  options.eof_grace = 10s;
  start(options);
  auto pondering = oracle.call<&Oracle::ponder>();
  EXPECT_TRUE(eventually([] { return Oracle::pondering == 1; }));
  proxy->cut();
  EXPECT_TRUE(eventually([&] { return suspected_count() == 1; }));
  const Error evidence =
      Error(ErrorCode::kPeerDied, "worker0 died: SIGKILL").from("head", "supervisor");
  driver->declare_dead(worker_ref.id, evidence);
  const Error error = error_of([&] { (void)pondering.get(); });
  EXPECT_EQ(error.message(),
            "worker0 died: SIGKILL; your call 'ponder' had been sent; whether it ran is unknown");
  EXPECT_EQ(error.node(), "head");
  EXPECT_TRUE(eventually([&] { return lost_count() == 1; }));
  EXPECT_EQ(lost[0], "worker0: worker0 died: SIGKILL");
  // Every later call fails at once with the same error.
  EXPECT_EQ(error_of([&] { (void)oracle.call<&Oracle::answer>(1).get(); }).message(),
            "worker0 died: SIGKILL; your call 'answer' had not been sent");
  EXPECT_FALSE(oracle.tell<&Oracle::answer>(1));
}

TEST_F(PeerLoss, FailPeerEndsCallsOverAHealthyConnectionAtOnce) {
  start();
  std::vector<Future<int>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(oracle.call<&Oracle::ponder>());
  driver->declare_dead(worker_ref.id, Error(ErrorCode::kPeerDied, "fenced"));
  for (auto& call : calls)
    EXPECT_EQ(error_of([&] { (void)call.get(); }).code(), ErrorCode::kPeerDied);
}

TEST_F(PeerLoss, AGoodbyeFailsCallsWithoutGrace) {
  auto options = of_gpt("driver");
  options.eof_grace = 1min;
  start(options);
  auto pondering = oracle.call<&Oracle::ponder>();
  EXPECT_TRUE(eventually([] { return Oracle::pondering == 1; }));
  worker.reset();
  const Error error = error_of([&] { (void)pondering.get(); });
  EXPECT_TRUE(error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kPeerDied)
      << error.describe();
  EXPECT_TRUE(eventually([&] { return lost_count() == 1; }));
  EXPECT_NE(lost[0].find("worker0 (gpt, pid"), std::string::npos) << lost[0];
  EXPECT_EQ(error_of([&] { (void)oracle.call<&Oracle::answer>(1).get(); }).code(),
            ErrorCode::kPeerDied);
}

TEST_F(PeerLoss, ASilentProcessIsDeadAfterTheTimeAllowedButAnIdleOneIsNot) {
  auto options = of_gpt("driver");
  options.beat_interval = 20ms;
  options.dead_after = 1s;
  auto worker_options = of_gpt("worker0");
  worker_options.beat_interval = 20ms;
  start(options, worker_options);
  auto pondering = oracle.call<&Oracle::ponder>();
  EXPECT_TRUE(eventually([] { return Oracle::pondering == 1; }));
  EXPECT_THAT(
      [&] { (void)oracle.within(1500ms).call<&Oracle::answer>(1).get(); },
      test::throws_error(
          ErrorCode::kDeadlineExceeded,
          "had no result by its deadline"));  // waits behind ponder(): only heartbeats are sent
  EXPECT_EQ(lost_count(), 0u);
  proxy->stall();
  const Error error = error_of([&] { (void)pondering.get(); });
  EXPECT_EQ(error.code(), ErrorCode::kPeerDied);
  EXPECT_NE(error.message().find("silent"), std::string::npos) << error.message();
}

TEST_F(PeerLoss, AProcessThatComesBackAfterALostConnectionIsDialledAgain) {
  start();
  proxy->cut();
  EXPECT_TRUE(eventually([&] { return lost_count() == 1; }));
  EXPECT_EQ(oracle.call<&Oracle::answer>(5).get(), 6);  // at its own address, not through the proxy
}

/// Actor that adds up numbers. The sum survives a change of owner.
class Tally final {
 public:
  explicit Tally(Context& context) : never_(context.make_wakeup()) {}
  int add(int more) { return sum_ += more; }
  task<int> ponder() {
    co_await never_.wait();
    co_return 0;
  }
  static constexpr auto endpoints =
      interface<"test.tally", 1>(on<&Tally::add>("add"), on<&Tally::ponder>("ponder"));

 private:
  Wakeup never_;
  int sum_ = 0;
};

TEST_F(PeerLoss, AnActorWhoseOwnerIsGoneIsTakenOverAsItIs) {
  auto keeps = of_gpt("worker0");
  keeps.keep_actors_without_owner = true;
  worker.emplace(keeps);
  worker->provide<Tally>();
  const Address at = worker->listen({"127.0.0.1", 0});
  proxy.emplace(at);
  driver.emplace(of_gpt("driver"));
  auto left = driver->spawn_mesh<Tally>("front", MeshShape{{"data", 1}},
                                        {driver->connect(proxy->address())});
  EXPECT_EQ(left.call<&Tally::add>(3).get(), std::vector{3});
  EXPECT_EQ(worker->num_owned_actors(), 1u);
  auto pondering = left.call<&Tally::ponder>();
  proxy->cut();
  EXPECT_EQ(error_of([&] { (void)pondering.get(); }).code(), ErrorCode::kPeerDied);
  EXPECT_TRUE(eventually([&] { return worker->num_owned_actors() == 0; }));

  System next(of_gpt("driver"));
  auto mesh = next.adopt_mesh<Tally>("front", MeshShape{{"data", 1}}, {next.connect(at)});
  // ponder() no longer has a caller, so it does not delay this call.
  EXPECT_EQ(mesh.call<&Tally::add>(4).get(), std::vector{7});
  EXPECT_EQ(worker->num_owned_actors(), 1u);
  std::move(left).detach();
  // Taking over a missing mesh succeeds; calls to it fail.
  auto none = next.adopt_mesh<Tally>("back", MeshShape{{"data", 1}}, {next.connect(at)});
  EXPECT_EQ(error_of([&] { (void)none.call<&Tally::add>(1).get(); }).code(), ErrorCode::kNotFound);
}

TEST(Connecting, AMissingListenerIsAReadableErrorInTime) {
  System driver(of_gpt("driver"));
  Address nowhere{"127.0.0.1", 0};
  {
    System gone(of_gpt("gone"));
    nowhere = gone.listen(nowhere);
  }
  const Error error = error_of([&] { (void)driver.connect(nowhere, 200ms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_NE(error.message().find(to_string(nowhere)), std::string::npos) << error.message();
}

TEST(Connecting, OtherExecutablesOfOneRunAreRefused) {
  auto here = of_gpt("driver"), there = of_gpt("worker0");
  here.binary_hash = std::string(64, 'a');
  there.binary_hash = std::string(64, 'b');
  here.run = there.run = 5;
  System worker(there), driver(here);
  const Address at = worker.listen({"127.0.0.1", 0});
  const Error error = error_of([&] { (void)driver.connect(at); });
  EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
  EXPECT_NE(error.message().find("different executables"), std::string::npos) << error.message();
}

TEST(Connecting, ACallThroughAnotherBuildOfTheInterfaceIsRefusedToo) {
  System worker(of_gpt("worker0")), driver(of_gpt("driver"));
  const auto process = driver.connect(worker.listen({"127.0.0.1", 0}));
  (void)worker.host<Oracle>("oracle");
  const Error error = error_of([&] {
    (void)driver.named<OtherOracle>(process, "oracle").call<&OtherOracle::answer>("why").get();
  });
  EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
}

TEST(Connecting, TwoProcessesThatDialEachOtherAtOnceEndUpWithOneConnectionAndLoseNoCall) {
  for (int round = 0; round < 20; ++round) {
    System left(of_gpt("left")), right(of_gpt("right"));
    left.listen({"127.0.0.1", 0});
    right.listen({"127.0.0.1", 0});
    (void)left.host<Oracle>("oracle");
    (void)right.host<Oracle>("oracle");
    const auto to_right = left.named<Oracle>(right.self(), "oracle");
    const auto to_left = right.named<Oracle>(left.self(), "oracle");
    std::jthread other([&] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(to_left.call<&Oracle::answer>(i).get(), i + 1);
    });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(to_right.call<&Oracle::answer>(i).get(), i + 1);
    other.join();
    EXPECT_EQ(left.peers().size(), 1u);
    EXPECT_EQ(right.peers().size(), 1u);
  }
}

TEST(Connecting, AProcessThatDoesNotListenIsCalledBackOverItsConnection) {
  System head(of_gpt("head")), tool(of_gpt("tool"));
  (void)tool.host<Oracle>("oracle");
  (void)tool.connect(head.listen({"127.0.0.1", 0}));
  EXPECT_TRUE(eventually([&] { return head.peers().size() == 1; }));
  EXPECT_EQ(head.named<Oracle>(head.peers()[0], "oracle").call<&Oracle::answer>(1).get(), 2);
}

}  // namespace
}  // namespace weft::actors
