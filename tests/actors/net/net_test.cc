#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "actors/net/connection.h"
#include "actors/net/network.h"
#include "core/base/philox.h"
#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint in(Nanoseconds delay) { return SteadyClock().now() + delay; }

/// Frames that one side of a connection received. The test can wait for them.
class Inbox final : public FrameHandler {
 public:
  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(body.data()) % 8, 0u);
    const std::lock_guard lock(mutex_);
    frames_.emplace_back(header.kind, std::vector<std::byte>(body.begin(), body.end()));
    changed_.notify_all();
  }
  void on_closed(const Error& reason) override {
    const std::lock_guard lock(mutex_);
    closed_ = reason;
    changed_.notify_all();
  }
  std::vector<std::pair<int, std::vector<std::byte>>> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, test::kPatience, [&] { return frames_.size() >= count; }));
    return frames_;
  }
  Error wait_closed() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, test::kPatience, [&] { return closed_.has_value(); }));
    return closed_.value();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, std::vector<std::byte>>> frames_;
  std::optional<Error> closed_;
};

/// Two event loops with a connection between them. The first one listens.
struct Pair {
  Inbox server_inbox, client_inbox;
  EventLoop server_loop{"server"}, client_loop{"client"};
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Connection> server, client;
  std::unique_ptr<Listener> listener;

  explicit Pair(std::uint32_t max_body = kMaxFrameBody) {
    listener = std::make_unique<Listener>(server_loop, Address{"127.0.0.1", 0},
                                          [this, max_body](std::shared_ptr<Connection> connection) {
                                            connection->start(server_inbox, max_body);
                                            const std::lock_guard lock(mutex);
                                            server = std::move(connection);
                                            changed.notify_all();
                                          });
  }
  ~Pair() {
    client_loop.stop();
    server_loop.stop();
  }
  void connect() {
    dial(client_loop, listener->address(), in(seconds(10)), Retry::kNever,
         {[this](std::shared_ptr<Connection> connection) {
            connection->start(client_inbox, kMaxFrameBody);
            const std::lock_guard lock(mutex);
            client = std::move(connection);
            changed.notify_all();
          },
          [](const Error& error) { ADD_FAILURE() << error.what(); }});
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, test::kPatience, [&] { return client && server; }));
  }
};

/// Returns a plain socket connected to `address`, for a peer that violates the protocol.
int raw_connect(const Address& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) & 255);
  return bytes;
}

TEST(Address, ParsesItsPrintedForm) {
  EXPECT_EQ(Address::parse("127.0.0.1:7077"), (Address{"127.0.0.1", 7077}));
  EXPECT_EQ(Address::parse("[::1]:1"), (Address{"::1", 1}));
  EXPECT_EQ(to_string(Address{"::1", 1}), "[::1]:1");
  for (const char* wrong : {"", "host", ":1", "host:", "host:x", "host:70000", "::1:5", "host:1x"})
    EXPECT_THAT([&] { (void)Address::parse(wrong); },
                test::throws_error(ErrorCode::kInvalidArgument, "is not an address"))
        << wrong;
}

TEST(FrameHeader, EveryFlippedBitIsNoticed) {
  FrameHeader header{kProtocolMajor, kProtocolMinor, 3, 1, 77, 5};
  const auto good = pack(header);
  EXPECT_EQ(unpack(good, 5, kMaxFrameBody).length, 77u);
  for (std::size_t bit = 0; bit < kFrameHeaderBytes * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_THAT(
        [&] { (void)unpack(bytes, 5, kMaxFrameBody); },
        test::throws_error(ErrorCode::kDataLoss,
                           testing::AnyOf(testing::HasSubstr("does not speak Weft's protocol"),
                                          testing::HasSubstr("damaged (checksum)"))))
        << bit;
  }
  EXPECT_THAT(
      [&] { (void)unpack(good, 6, kMaxFrameBody); },
      test::throws_error(ErrorCode::kDataLoss, "frame 5 arrived where frame 6 was expected"));
  EXPECT_THAT(
      [&] { (void)unpack(good, 5, 76); },
      test::throws_error(ErrorCode::kDataLoss, "announces 77 bytes, more than the 76 allowed"));
  header.major = kProtocolMajor + 1;
  EXPECT_THAT([&] { (void)unpack(pack(header), 5, kMaxFrameBody); },
              test::throws_error(ErrorCode::kIncompatible,
                                 fmt::format("this one {}.{}", kProtocolMajor, kProtocolMinor)));
}

TEST(Connection, FramesOfAllSizesArriveInOrderAndWhole) {
  Pair pair;
  pair.connect();
  const std::vector<std::size_t> sizes{0, 1, 7, 8, 9, 64, 65535, 65536, 1 << 20, 3};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    pair.client->append(static_cast<std::uint8_t>(i), 0, pattern(sizes[i], static_cast<int>(i)));
  pair.client->flush();
  const auto frames = pair.server_inbox.wait_for(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(frames[i].first, static_cast<int>(i));
    EXPECT_EQ(frames[i].second, pattern(sizes[i], static_cast<int>(i)));
  }
  pair.server->append(9, 0, pattern(10, 1));
  pair.server->schedule_flush();
  EXPECT_EQ(pair.client_inbox.wait_for(1)[0].second, pattern(10, 1));
}

TEST(Connection, ManyThreadsMayWriteAndNothingIsLostOrMixed) {
  Pair pair;
  pair.connect();
  constexpr int kThreads = 4, kFrames = 3000;
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < kThreads; ++t)
      writers.emplace_back([&, t] {
        for (int i = 0; i < kFrames; ++i) {
          const auto body = encode(i);
          pair.client->append(static_cast<std::uint8_t>(t), 0, body);
          i % 3 == 0 ? pair.client->flush() : pair.client->schedule_flush();
        }
      });
  }
  std::array<int, kThreads> next{};
  for (const auto& [thread, body] : pair.server_inbox.wait_for(kThreads * kFrames))
    EXPECT_EQ(decode<int>(body), next[static_cast<std::size_t>(thread)]++);
}

TEST(Connection, AFullSocketDoesNotBlockTheWriter) {
  Pair pair;
  pair.connect();
  // The server's loop is blocked, so no data is read.
  std::mutex hold;
  hold.lock();
  pair.server_loop.post([&] { const std::lock_guard wait(hold); });
  const auto megabyte = pattern(1 << 20, 5);
  for (int i = 0; i < 32; ++i) {
    pair.client->append(1, 0, megabyte);
    pair.client->flush();
  }
  EXPECT_GT(pair.client->unsent_bytes(), std::size_t{1} << 20);
  hold.unlock();
  const auto frames = pair.server_inbox.wait_for(32);
  EXPECT_EQ(frames[31].second, megabyte);
}

TEST(Connection, StopWritesWhatWasAppendedAndThenTheOtherSideSeesTheEnd) {
  Pair pair;
  pair.connect();
  for (int i = 0; i < 8; ++i) pair.client->append(1, 0, pattern(1 << 20, i));
  pair.client_loop.run_and_wait([&] { pair.client->stop(); });
  EXPECT_EQ(pair.server_inbox.wait_for(8).size(), 8u);
  EXPECT_EQ(pair.server_inbox.wait_closed().message(), "connection closed by the other side");
}

TEST(Connection, DamagedFramesCloseItWithAnError) {
  PhiloxStream random(11);
  for (int round = 0; round < 40; ++round) {
    Pair pair(4096);
    const int fd = raw_connect(pair.listener->address());
    auto bytes = pack(FrameHeader{kProtocolMajor, kProtocolMinor, 1, 0, 8, 0});
    bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    const Error error = pair.server_inbox.wait_closed();
    EXPECT_TRUE(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kIncompatible)
        << error.what();
    ::close(fd);
  }
}

TEST(Connection, AnAnnouncedLengthAboveTheLimitIsRefused) {
  Pair pair(4096);
  const int fd = raw_connect(pair.listener->address());
  const auto bytes = pack(FrameHeader{kProtocolMajor, kProtocolMinor, 1, 0, 4097, 0});
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(pair.server_inbox.wait_closed().code(), ErrorCode::kDataLoss);
  ::close(fd);
}

TEST(Dial, RetriesUntilThePeerListens) {
  EventLoop loop("loop");
  const test::ReservedPort reserved;
  const Address address{"127.0.0.1", reserved.port()};
  std::promise<std::shared_ptr<Connection>> connected;
  dial(loop, address, in(test::kPatience), Retry::kUntilDeadline,
       {[&](std::shared_ptr<Connection> connection) { connected.set_value(std::move(connection)); },
        [](const Error& error) { ADD_FAILURE() << error.what(); }});
  const Listener late(loop, address, [](std::shared_ptr<Connection>) {});
  auto result = connected.get_future();
  ASSERT_EQ(result.wait_for(test::kPatience), std::future_status::ready);
  EXPECT_NE(result.get(), nullptr);
  loop.stop();
}

TEST(Dial, AnErrorNamesTheAddressAndTheReason) {
  EventLoop loop("loop");
  const test::ReservedPort reserved;
  const Address address{"127.0.0.1", reserved.port()};
  std::promise<Error> failed;
  dial(loop, address, in(test::kPatience), Retry::kNever,
       {[](std::shared_ptr<Connection>) { ADD_FAILURE(); },
        [&](const Error& error) { failed.set_value(error); }});
  const Error error = failed.get_future().get();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_NE(error.message().find(to_string(address)), std::string::npos) << error.message();
  std::promise<Error> late;
  dial(loop, address, in(milliseconds(100)), Retry::kUntilDeadline,
       {[](std::shared_ptr<Connection>) { ADD_FAILURE(); },
        [&](const Error& e) { late.set_value(e); }});
  EXPECT_NE(late.get_future().get().message().find("no answer in the time allowed"),
            std::string::npos);
  loop.stop();
}

TEST(Listener, APortInUseIsAReadableError) {
  EventLoop loop("loop");
  const Listener first(loop, Address{"127.0.0.1", 0}, [](std::shared_ptr<Connection>) {});
  EXPECT_THAT(
      [&] { const Listener second(loop, first.address(), [](std::shared_ptr<Connection>) {}); },
      test::throws_error(ErrorCode::kUnavailable, to_string(first.address())));
}

/// Two loops; one listens, and the other connects.
struct Streams {
  using Stream = std::unique_ptr<ByteStream>;

  explicit Streams(const std::string& host, std::uint16_t port = 0)
      : acceptor(loop.io().listen({host, port}, IoLoop::OnLoopback::kUnixOrTcp)),
        connector(other.io().make_connector(IoLoop::OnLoopback::kUnixOrTcp)) {}
  ~Streams() {
    other.stop();
    loop.stop();
  }
  /// Returns the accepted end, and then the one that has connected to `host`.
  std::pair<Stream, Stream> connect(const std::string& host) {
    std::promise<Stream> accepted, connected;
    loop.post([&] {
      acceptor->accept([&](Outcome<Stream> end) { accepted.set_value(std::move(end).value()); });
    });
    other.post([&] {
      connector->connect({host, acceptor->address().port},
                         [&](Outcome<Stream> end) { connected.set_value(std::move(end).value()); });
    });
    auto first = accepted.get_future().get();
    return {std::move(first), connected.get_future().get()};
  }

  EventLoop loop{"server"}, other{"client"};
  std::unique_ptr<IoLoop::StreamAcceptor> acceptor;
  std::unique_ptr<IoLoop::StreamConnector> connector;
};

/// Returns the abstract Unix address beside 127.0.0.1 and `port`, and its size.
std::pair<sockaddr_un, socklen_t> unix_address(std::uint16_t port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = std::string(1, '\0') + "weft 127.0.0.1:" + std::to_string(port);
  std::memcpy(address.sun_path, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())};
}

TEST(Net, OneUsersStreamsOnLoopbackArePrivate) {
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    Streams streams(host);
    for (int i = 0; i < 3; ++i) {
      const auto [accepted, connected] = streams.connect("127.0.0.1");
      EXPECT_TRUE(accepted->is_private());
      EXPECT_TRUE(connected->is_private());
      EXPECT_EQ(accepted->peer_address().host, "127.0.0.1");
      EXPECT_EQ(connected->peer_address().port, streams.acceptor->address().port);
    }
  }
}

TEST(Net, AStreamIsNotPrivateIfTheNameOfItsUnixSocketIsTaken) {
  const test::ReservedPort reserved;
  const auto [name, size] = unix_address(reserved.port());
  const int taker = ::socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(::bind(taker, reinterpret_cast<const sockaddr*>(&name), size), 0);
  Streams streams("127.0.0.1", reserved.port());
  const auto [accepted, connected] = streams.connect("127.0.0.1");
  EXPECT_FALSE(accepted->is_private());
  EXPECT_FALSE(connected->is_private());
  ::close(taker);
}

TEST(Net, AnotherUserGetsNoPrivateStream) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Streams streams("127.0.0.1");
  const auto address = unix_address(streams.acceptor->address().port);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  bool is_other_user = false;
  std::thread([&] {  // only this thread changes its user
    is_other_user = ::syscall(SYS_setresuid, -1, 12345, -1) == 0;
    if (!is_other_user) return;
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address.first), address.second), 0);
  })
      .join();
  if (!is_other_user) {
    ::close(fd);
    GTEST_SKIP() << "this namespace has no other user";
  }
  const auto [accepted, connected] = streams.connect("127.0.0.1");
  EXPECT_TRUE(accepted->is_private());
  char byte = 0;
  EXPECT_EQ(::recv(fd, &byte, 1, 0), 0) << "the other user's is closed";
  ::close(fd);
}

}  // namespace
}  // namespace weft::actors
