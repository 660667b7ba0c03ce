// Tests TLS connections against plaintext peers and an attacker on the way.
#include "actors/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/net/event_loop.h"
#include "actors/net/network.h"
#include "actors/system/system.h"
#include "tests/support/between.h"
#include "tests/support/cluster_token.h"
#include "tests/support/eventually.h"
#include "tests/support/log_lines.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::Between;
using test::error_of;
using test::eventually;
using test::LogLines;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

SystemOptions over(TlsMode tls, const std::string& name, LogLines* lines = nullptr) {
  SystemOptions options = test::system_options(name);
  options.tls = tls;
  if (lines != nullptr) options.log = lines->log();
  return options;
}

/// Actor that returns its argument.
class Parrot final {
 public:
  explicit Parrot(Context&) {}
  std::string repeat(const std::string& text) const { return text; }
  static constexpr auto endpoints = interface<"test.parrot", 1>(on<&Parrot::repeat>("repeat"));
};

TEST(TlsLinks, CallsOfAllSizesGoBothWaysUnreadableInBetween) {
  System one(over(TlsMode::kAlways, "one"));
  (void)one.host<Parrot>("parrot");
  Between observer(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  System other(over(TlsMode::kAlways, "other"));
  const auto parrot = other.named<Parrot>(other.connect(observer.address()), "parrot");
  for (const std::size_t size : {0u, 1u, 1000u, 20'000u, 300'000u, 5'000'000u}) {
    const std::string text(size, 'p');
    EXPECT_EQ(parrot.call<&Parrot::repeat>(text).get(), text);
  }
  std::vector<Future<std::string>> many;
  for (int i = 0; i < 2000; ++i) many.push_back(parrot.call<&Parrot::repeat>(std::to_string(i)));
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(many[i].get(), std::to_string(i));
  const std::string heard = observer.dialler_said();
  EXPECT_GT(heard.size(), 5'000'000u);
  // Long enough not to be in so many bytes of cipher text by chance.
  EXPECT_THAT(heard, Not(HasSubstr("pppppppp")));
}

TEST(TlsLinks, OnLoopbackThereIsNoTlsUnlessACertificateIsNamed) {
  auto options = over(TlsMode::kBeyondLoopback, "one");
  options.identity = tls_library().make_identity();
  System one(options);
  (void)one.host<Parrot>("parrot");
  const Address at = one.listen({"127.0.0.1", 0});
  {
    Between observer(Between::Kind::kListens, at);
    System other(over(TlsMode::kBeyondLoopback, "other"));
    (void)other.connect(observer.address());
    EXPECT_THAT(observer.dialler_said(), HasSubstr("WEFT"));
  }
  Between observer(Between::Kind::kListens, at);
  auto asks = over(TlsMode::kBeyondLoopback, "asks");
  asks.pinned = SystemOptions::Pinned{
      observer.address(), tls_library().certificate_sha256(options.identity.certificate), true};
  System other(asks);
  (void)other.connect(observer.address());
  EXPECT_GT(observer.dialler_said().size(), 200u);
  EXPECT_THAT(observer.dialler_said(), Not(HasSubstr("WEFT")));
}

TEST(TlsLinks, AnotherCertificateThanTheExpectedOneIsRefusedWithBoth) {
  LogLines lines;
  auto options = over(TlsMode::kAlways, "head", &lines);
  options.identity = tls_library().make_identity();
  System head(options);
  const Address at = head.listen({"127.0.0.1", 0});
  auto asks = over(TlsMode::kAlways, "worker");
  const std::string expected(64, '0');
  asks.pinned = SystemOptions::Pinned{at, expected, false};
  asks.tls = TlsMode::kBeyondLoopback;
  asks.pinned->also_on_loopback = true;
  System worker(asks);
  const Error error = error_of([&] { (void)worker.connect(at); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr(to_string(at)), HasSubstr(expected),
                    HasSubstr(tls_library().certificate_sha256(options.identity.certificate))));
  EXPECT_TRUE(lines.has("the peer expects another certificate than this process presents"));
  EXPECT_TRUE(head.peers().empty());
}

TEST(TlsLinks, AMachineBetweenTwoTlsConnectionsIsDetected) {
  LogLines lines;
  System head(over(TlsMode::kAlways, "head", &lines));
  Between attacker(Between::Kind::kHasTls, head.listen({"127.0.0.1", 0}));
  System worker(over(TlsMode::kAlways, "worker"));
  const Error error = error_of([&] { (void)worker.connect(attacker.address()); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("or a machine in between terminates the TLS connection"));
  // The attacker read the greeting but did not complete the handshake.
  EXPECT_THAT(attacker.dialler_said(), HasSubstr("WEFT"));
  EXPECT_TRUE(lines.has("refused a connection from "));
  EXPECT_TRUE(head.peers().empty());
  EXPECT_TRUE(worker.peers().empty());
}

TEST(TlsLinks, PlainTextWhereTlsIsDueIsRefusedAndBothSidesSayWhy) {
  LogLines lines;
  std::string told;
  System head(over(TlsMode::kAlways, "head", &lines));
  std::atomic<int> refused = 0;
  head.on_refused([&](const std::string& text) {
    told = text;
    ++refused;
  });
  const Address at = head.listen({"127.0.0.1", 0});
  System worker(over(TlsMode::kNever, "worker"));
  for (int i = 0; i < 3; ++i) {
    const Error error = error_of([&] { (void)worker.connect(at); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << "the refusal of somebody unproven";
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("head (weft, pid "), HasSubstr("requires TLS beyond loopback"),
                      HasSubstr("worker (weft, pid "), HasSubstr("connected without TLS"),
                      HasSubstr("start it without --insecure")));
  }
  EXPECT_TRUE(eventually([&] { return refused == 1; }));
  EXPECT_THAT(lines.text(),
              AllOf(HasSubstr("worker (weft, pid "), HasSubstr("connected without TLS")));
  EXPECT_EQ(refused, 1) << "one in ten seconds";
  head.on_refused(nullptr);
  EXPECT_THAT(told, HasSubstr("refused a connection from 127.0.0.1:"));
}

TEST(TlsLinks, TlsToAPlainTextPeerFailsWithAReasonOnBothSides) {
  LogLines lines;
  System head(over(TlsMode::kNever, "head", &lines));
  const Address at = head.listen({"127.0.0.1", 0});
  System worker(over(TlsMode::kAlways, "worker"));
  const Error error = error_of([&] { (void)worker.connect(at); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(to_string(at)), HasSubstr("does not accept TLS"),
                                     HasSubstr("use --insecure here, too")));
  EXPECT_TRUE(lines.has("the peer uses TLS, but this process runs with --insecure"));
}

TEST(TlsLinks, ACertificateAndNoTlsContradictEachOther) {
  System head(over(TlsMode::kNever, "head"));
  const Address at = head.listen({"127.0.0.1", 0});
  auto asks = over(TlsMode::kNever, "worker");
  asks.pinned = SystemOptions::Pinned{at, std::string(64, '0'), true};
  System worker(asks);
  EXPECT_THAT(error_of([&] { (void)worker.connect(at); }).message(),
              HasSubstr("--insecure disables TLS"));
}

TEST(TlsLinks, AReplayedGreetingIsRefused) {
  LogLines lines;
  System head(over(TlsMode::kNever, "head", &lines));
  const Address at = head.listen({"127.0.0.1", 0});
  std::string greeting;
  {
    Between observer(Between::Kind::kListens, at);
    System worker(over(TlsMode::kNever, "worker"));
    (void)worker.connect(observer.address());
    greeting = observer.dialler_said();
  }
  EXPECT_TRUE(eventually([&] { return head.peers().empty(); }));
  EventLoop loop("replay");
  std::unique_ptr<IoLoop::StreamConnector> connector;
  std::unique_ptr<ByteStream> stream;
  loop.run_and_wait([&] {
    connector = loop.io().make_connector(IoLoop::OnLoopback::kUnixOrTcp);
    connector->connect(at, [&](Outcome<std::unique_ptr<ByteStream>> connected) {
      stream = std::move(connected).value();
      (void)stream->write_some(std::as_bytes(std::span(greeting)));
    });
  });
  EXPECT_TRUE(lines.has("the token is wrong: it is not that of ")) << lines.text();
  EXPECT_TRUE(head.peers().empty());
  loop.stop();
}

// --- replacing the token

TEST(NewToken, ConnectedPeersReceiveItAndNewPeersNeedIt) {
  const auto plain = TlsMode::kBeyondLoopback;
  LogLines lines;
  System head(over(plain, "head", &lines));
  (void)head.host<Parrot>("parrot");
  const Address at = head.listen({"127.0.0.1", 0});
  System agent(over(plain, "agent"));
  const Address agent_at = agent.listen({"127.0.0.1", 0});
  const auto parrot = agent.named<Parrot>(agent.connect(at), "parrot");
  System device(over(plain, "device"));  // connected to the agent only
  (void)device.connect(agent_at);

  const Secret next = Secret::random();
  const auto replaced = head.replace_token(next, 60s, {});
  EXPECT_THAT(replaced.told, ::testing::ElementsAre("agent"));
  EXPECT_TRUE(replaced.not_notified.empty());
  EXPECT_TRUE(eventually([&] {
    return equal_in_constant_time(agent.token().bytes(), next.bytes()) &&
           equal_in_constant_time(device.token().bytes(), next.bytes());
  }));
  EXPECT_EQ(parrot.call<&Parrot::repeat>(std::string("still here")).get(), "still here");

  System stranger(over(plain, "stranger"));
  const Error error = error_of([&] { (void)stranger.connect(at); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("stranger (weft, pid "), HasSubstr("a token that was replaced"),
                    HasSubstr("give it the new one")));
  auto informed = over(plain, "informed");
  informed.token = next;
  System friend_of_theirs(informed);
  (void)friend_of_theirs.connect(at);
  (void)friend_of_theirs.connect(agent_at);
}

TEST(NewToken, AMemberThatWasAwayComesBackWithTheFormerOneAndIsGivenTheNewOne) {
  const auto plain = TlsMode::kBeyondLoopback;
  const Secret next = Secret::random();
  System agent(over(plain, "agent"));
  System stranger(over(plain, "stranger"));
  auto options = over(plain, "head");
  options.token = next;  // the next head, which has read the new token
  System head(options);
  head.accept_former_token(test::cluster_token(), 60s, {agent.self().id});
  const Address at = head.listen({"127.0.0.1", 0});
  (void)agent.connect(at);
  EXPECT_TRUE(
      eventually([&] { return equal_in_constant_time(agent.token().bytes(), next.bytes()); }));
  EXPECT_THAT(error_of([&] { (void)stranger.connect(at); }).message(),
              HasSubstr("a token that was replaced"));
}

}  // namespace
}  // namespace weft::actors
