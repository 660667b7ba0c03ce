// Tests peers without the token, or with another protocol version.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "actors/link/handshake.h"
#include "actors/message/message_frames.h"
#include "actors/net/connection.h"
#include "actors/system/system.h"
#include "tests/actors/system/oracle.h"
#include "tests/support/eventually.h"
#include "tests/support/log_lines.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;
using test::LogLines;

TEST(Connecting, StrangersAndDamagedFramesDoNotDisturbTheSystem) {
  System worker(of_gpt("worker0")), driver(of_gpt("driver"));
  const Address at = worker.listen({"127.0.0.1", 0});
  (void)worker.host<Oracle>("oracle");
  const auto process = driver.connect(at);
  for (int kind = 0; kind < 12; ++kind) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(at.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    // Sends a frame of each kind with a random body before any handshake.
    auto bytes = pack(
        FrameHeader{kProtocolMajor, kProtocolMinor, static_cast<std::uint8_t>(kind), 0, 64, 0});
    std::vector<std::byte> message(bytes.begin(), bytes.end());
    message.resize(message.size() + 64, static_cast<std::byte>(0x5a + kind));
    ASSERT_EQ(::send(fd, message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
    char answer[256];
    while (::recv(fd, answer, sizeof(answer), 0) > 0) {
    }
    ::close(fd);
  }
  EXPECT_EQ(driver.named<Oracle>(process, "oracle").call<&Oracle::answer>(1).get(), 2);
  EXPECT_EQ(worker.peers().size(), 1u);
}

TEST(Connecting, ASurveyByAnotherBuildIsRefusedInOneLine) {
  System worker(of_gpt("worker0")), driver(of_gpt("driver"));
  const ProcessRef process = driver.connect(worker.listen({"127.0.0.1", 0}));
  EXPECT_EQ(driver.survey(process, {{{process.id}}, 1'000'000'000}, 5s).get().size(), 1u);
  const System::Method survey{"survey", 4, 1, true, false, kDefaultDeadline};
  const auto refused =
      driver.call(std::make_shared<const ActorAddress>(ActorAddress{process, ActorId(0), "survey"}),
                  survey, 5s, encode(SurveyRequest{}));
  refused->wait_until(TimePoint::max());
  ASSERT_TRUE(refused->error());
  EXPECT_EQ(refused->error()->code(), ErrorCode::kIncompatible);
  EXPECT_EQ(refused->error()->message(),
            "worker0 runs another build of Weft, whose state this one cannot read: use the weft of "
            "that build");
}

/// Socket that sends Weft's frames but has no token.
class Stranger final {
 public:
  explicit Stranger(const Address& at) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(at.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Stranger() { ::close(fd_); }
  Stranger(const Stranger&) = delete;

  bool connected() const { return connected_; }
  void send(MessageKind kind, std::span<const std::byte> body,
            std::uint8_t major = kProtocolMajor) {
    const auto header = pack(FrameHeader{major, kProtocolMinor, static_cast<std::uint8_t>(kind), 0,
                                         static_cast<std::uint32_t>(body.size()), next_++});
    std::vector<std::byte> bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), body.begin(), body.end());
    bytes.resize(kFrameHeaderBytes + padded(body.size()));
    (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Copies the bytes received so far to `into`, without taking them. Returns their number.
  std::size_t peek(std::vector<std::byte>& into) {
    into.resize(2 * Handshake::kMaxBody);
    const ssize_t got = ::recv(fd_, into.data(), into.size(), MSG_PEEK | MSG_DONTWAIT);
    into.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return into.size();
  }
  /// Returns all bytes until the other side closes. Waits at most ten seconds.
  std::vector<std::byte> read_all() {
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::vector<std::byte> all;
    std::byte part[4096];
    for (ssize_t got = 0; (got = ::recv(fd_, part, sizeof part, 0)) > 0;)
      all.insert(all.end(), part, part + got);
    return all;
  }
  /// Returns the kinds of the frames in `bytes`.
  static std::vector<MessageKind> kinds(std::span<const std::byte> bytes) {
    std::vector<MessageKind> found;
    for (std::uint64_t i = 0; bytes.size() >= kFrameHeaderBytes; ++i) {
      const auto header = unpack(bytes.first<kFrameHeaderBytes>(), i, kMaxFrameBody);
      found.push_back(static_cast<MessageKind>(header.kind));
      bytes = bytes.subspan(kFrameHeaderBytes + padded(header.length));
    }
    return found;
  }

 private:
  const int fd_;
  bool connected_ = false;
  std::uint64_t next_ = 0;
};

std::vector<std::byte> hello_of(const std::string& name) {
  PeerDescription stranger{{ProcessId(99), name, {}}, 1, "gpt", "", {}};
  std::vector<std::byte> bytes;
  encode_hello(stranger, [&](const MessageBytes& message) { bytes = message.joined(); });
  return bytes;
}

TEST(Token, AnotherTokenIsRefusedAndBothSidesSayWhy) {
  LogLines lines;
  auto options = of_gpt("worker0");
  options.log = lines.log();
  System worker(options);
  const Address at = worker.listen({"127.0.0.1", 0});
  auto other = of_gpt("driver");
  other.token = Secret::random();
  System driver(other);
  const Error error = error_of([&] { (void)driver.connect(at); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  for (const char* part : {"worker0 (gpt, pid", "the token is wrong", "--token-file FILE"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  EXPECT_TRUE(lines.has("refused a connection from 127.0.0.1:"));
  EXPECT_TRUE(lines.has("driver (gpt, pid"));
  EXPECT_TRUE(worker.peers().empty());
}

TEST(Token, WithoutATokenNoConnectionIsMadeOrAccepted) {
  System nobody{SystemOptions{}};
  EXPECT_EQ(error_of([&] {
              (void)nobody.listen({"127.0.0.1", 0});
            }).code(),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_of([&] {
              (void)nobody.connect({"127.0.0.1", 1});
            }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(Token, NothingIsReadFromAnUnauthenticatedPeer) {
  System worker(of_gpt("worker0"));
  const Address at = worker.listen({"127.0.0.1", 0});
  {
    Stranger stranger(at);  // an invalid proof
    stranger.send(MessageKind::kHello, hello_of("stranger"));
    stranger.send(MessageKind::kProof, std::vector<std::byte>(32, std::byte{1}));
    EXPECT_EQ(Stranger::kinds(stranger.read_all()),
              (std::vector{MessageKind::kChallenge, MessageKind::kProof, MessageKind::kReject}));
  }
  {
    Stranger stranger(at);  // a call instead of a proof
    stranger.send(MessageKind::kHello, hello_of("stranger"));
    stranger.send(MessageKind::kCall, std::vector<std::byte>(64));
    EXPECT_EQ(Stranger::kinds(stranger.read_all()),
              (std::vector{MessageKind::kChallenge, MessageKind::kProof}));
  }
  {
    Stranger stranger(at);
    // longer than an unauthenticated peer may send
    stranger.send(MessageKind::kHello, hello_of(std::string(5000, 'x')));
    EXPECT_TRUE(stranger.read_all().empty());
  }
  {
    Stranger stranger(at);
    // regression: 64 zero bytes were decoded as a process with the id 0
    stranger.send(MessageKind::kHello, std::vector<std::byte>(64));
    EXPECT_TRUE(stranger.read_all().empty());
  }
  EXPECT_TRUE(worker.peers().empty());
}

TEST(Token, AProofIsGoodForOneConnectionAndOneDirection) {
  System worker(of_gpt("worker0"));
  const Address at = worker.listen({"127.0.0.1", 0});
  Stranger first(at);
  first.send(MessageKind::kHello, hello_of("stranger"));
  // The worker sends its own proof right after its challenge. Echoing it back proves nothing.
  std::vector<std::byte> answer(2 * Handshake::kMaxBody);
  EXPECT_TRUE(eventually([&] { return first.peek(answer) > kFrameHeaderBytes + 32; }));
  const std::vector<std::byte> proof(answer.end() - 32, answer.end());
  first.send(MessageKind::kProof, proof);
  EXPECT_EQ(Stranger::kinds(first.read_all()).back(), MessageKind::kReject);
  EXPECT_TRUE(worker.peers().empty());
}

TEST(Versions, AnotherMajorGetsARefusalThatItsSideCanRead) {
  LogLines lines;
  auto options = of_gpt("worker0");
  options.log = lines.log();
  System worker(options);
  Stranger newer(worker.listen({"127.0.0.1", 0}));
  newer.send(MessageKind::kHello, hello_of("newer"), kProtocolMajor + 1);
  const auto answer = newer.read_all();
  EXPECT_EQ(Stranger::kinds(answer), std::vector{MessageKind::kReject});
  EXPECT_EQ(std::to_integer<int>(answer[4]), kProtocolMajor)
      << "the header alone says which version this side speaks";
  EXPECT_TRUE(
      lines.has("the other side speaks protocol 4.1, this one 3.1; install the same Weft on both"));
}

TEST(HalfOpen, AnAuthenticatedPeerConnectsBesideThousandsOfHalfOpenConnections) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlimit raised{files.rlim_max, files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  const std::size_t count = std::min<std::size_t>(5'000, files.rlim_max / 2 - 400);
  LogLines lines;
  auto options = of_gpt("worker0");
  options.log = lines.log();
  System worker(options);
  (void)worker.host<Oracle>("oracle");
  const Address at = worker.listen({"127.0.0.1", 0});
  System early(of_gpt("early"));
  const auto known = early.connect(at);
  std::vector<std::unique_ptr<Stranger>> idle;
  for (std::size_t i = 0; i < count; ++i) idle.push_back(std::make_unique<Stranger>(at));
  System late(of_gpt("late"));
  EXPECT_EQ(late.named<Oracle>(late.connect(at), "oracle").call<&Oracle::answer>(1).get(), 2);
  EXPECT_EQ(early.named<Oracle>(known, "oracle").call<&Oracle::answer>(1).get(), 2)
      << "proven ones do not count";
  EXPECT_TRUE(lines.has("too many unauthenticated connections (256); the oldest was closed"));
  idle.clear();
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace
}  // namespace weft::actors
