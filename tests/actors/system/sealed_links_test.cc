// Tests connections without TLS against an attacker on the way who lacks the token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <tuple>

#include "actors/link/handshake.h"
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
using From = Between::From;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

SystemOptions plain(const std::string& name, LogLines* lines = nullptr) {
  SystemOptions options = test::system_options(name);
  if (lines != nullptr) options.log = lines->log();
  return options;
}

/// Actor that counts the texts it was given.
class Safe final {
 public:
  explicit Safe(Context&) {}
  std::string keep(const std::string& text) {
    ++kept_;
    return text;
  }
  std::int64_t kept() const { return kept_; }
  static constexpr auto endpoints =
      interface<"test.safe", 1>(on<&Safe::keep>("keep"), on<&Safe::kept>("kept"));

 private:
  std::int64_t kept_ = 0;
};

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame(MessageKind kind, std::uint64_t sequence, std::span<const std::byte> body) {
  FrameHeader header;
  header.major = kProtocolMajor;
  header.minor = kProtocolMinor;
  header.kind = static_cast<std::uint8_t>(kind);
  header.length = static_cast<std::uint32_t>(body.size());
  header.sequence = sequence;
  std::string text = as_text(pack(header)) + as_text(body);
  text.resize(kFrameHeaderBytes + padded(body.size()));
  return text;
}

std::string reject_frame(std::uint64_t sequence, ErrorCode code) {
  std::string text;
  encode_reject({code, "go away", "", true, ProcessId(5)}, [&](const MessageBytes& body) {
    text = frame(MessageKind::kReject, sequence, body.joined());
  });
  return text;
}

/// Returns the unencrypted frames at the start of the bytes that one side sent.
std::vector<std::pair<MessageKind, std::string>> plain_frames(const std::string& said) {
  std::vector<std::pair<MessageKind, std::string>> frames;
  auto rest = std::as_bytes(std::span(said));
  while (rest.size() >= kFrameHeaderBytes && as_text(rest.first(4)) == "WEFT") {
    const auto header = unpack(rest.first<kFrameHeaderBytes>(), frames.size(), kMaxFrameBody);
    frames.emplace_back(static_cast<MessageKind>(header.kind),
                        as_text(rest.subspan(kFrameHeaderBytes, header.length)));
    rest = rest.subspan(kFrameHeaderBytes + padded(header.length));
  }
  return frames;
}

TEST(SealedLinks, CallsOfAllSizesGoBothWaysUnreadableInBetween) {
  System one(plain("one"));
  (void)one.host<Safe>("safe");
  Between observer(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  System other(plain("other"));
  const auto safe = other.named<Safe>(other.connect(observer.address()), "safe");
  for (const std::size_t size : {0u, 1u, 1000u, 20'000u, 300'000u, 5'000'000u}) {
    const std::string text(size, 'p');
    EXPECT_EQ(safe.call<&Safe::keep>(text).get(), text);
  }
  std::vector<Future<std::string>> many;
  for (int i = 0; i < 2000; ++i) many.push_back(safe.call<&Safe::keep>(std::to_string(i)));
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(many[i].get(), std::to_string(i));
  const std::string dialler = observer.dialler_said(), acceptor = observer.acceptor_said();
  EXPECT_GT(dialler.size(), 5'000'000u);
  EXPECT_GT(acceptor.size(), 5'000'000u);
  for (const std::string& heard : {dialler, acceptor}) {
    EXPECT_THAT(heard, Not(HasSubstr("pppp")));
    EXPECT_EQ(heard.rfind("WEFT") < 1000, true) << "only the greeting has frames";
  }
}

TEST(SealedLinks, NoKeyTravelsAndWelcomeIsEncrypted) {
  System one(plain("one")), other(plain("other"));
  Between observer(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  (void)other.connect(observer.address());
  const std::string dialler = observer.dialler_said(), acceptor = observer.acceptor_said();
  const auto said = plain_frames(dialler), answered = plain_frames(acceptor);
  ASSERT_EQ(said.size(), 2u);
  ASSERT_EQ(answered.size(), 2u);
  EXPECT_EQ(said[0].first, MessageKind::kHello);
  EXPECT_EQ(said[1].first, MessageKind::kProof);
  EXPECT_EQ(answered[0].first, MessageKind::kChallenge);
  EXPECT_EQ(answered[1].first, MessageKind::kProof);
  std::set<std::string> values = {said[1].second, answered[1].second};
  for (const char* label : {"weft 3 key dialler", "weft 3 key acceptor"}) {
    const Mac key = hmac_sha256(
        test::cluster_token(), label,
        {std::as_bytes(std::span(said[0].second)), std::as_bytes(std::span(answered[0].second))});
    const std::string text = as_text(key);
    EXPECT_THAT(dialler, Not(HasSubstr(text)));
    EXPECT_THAT(acceptor, Not(HasSubstr(text)));
    values.insert(text);
  }
  EXPECT_EQ(values.size(), 4u) << "two proofs and two keys";
}

TEST(SealedLinks, ANewTokenIsNotSeenOnTheWay) {
  LogLines lines;
  auto options = plain("head");
  options.is_head = true;
  System head(options);
  Between observer(Between::Kind::kListens, head.listen({"127.0.0.1", 0}));
  System agent(plain("agent"));
  (void)agent.connect(observer.address(), 10s, {.head = true});
  const Secret next = Secret::random();
  (void)head.replace_token(next, 60s, {});
  EXPECT_TRUE(
      eventually([&] { return equal_in_constant_time(agent.token().bytes(), next.bytes()); }));
  const std::string heard = observer.dialler_said() + observer.acceptor_said();
  EXPECT_THAT(heard, Not(HasSubstr(as_text(next.bytes()))));
  EXPECT_THAT(heard, Not(HasSubstr(next.hexadecimal())));
}

/// Change that an attacker makes to the next bytes of one side.
struct Deed {
  const char* name;
  From from;
  Between::Change change;
};

class Tampering : public ::testing::TestWithParam<Deed> {};

TEST_P(Tampering, EndsTheConnectionAndIsReported) {
  LogLines lines;
  System one(plain("one", &lines)), other(plain("other", &lines));
  (void)one.host<Safe>("safe");
  Between between(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  std::atomic<int> lost = 0;
  one.on_peer_disconnected([&](const ProcessRef&, const Error&, DisconnectCause) { ++lost; });
  other.on_peer_disconnected([&](const ProcessRef&, const Error&, DisconnectCause) { ++lost; });
  const auto process = other.connect(between.address());
  const auto safe = other.named<Safe>(process, "safe");
  EXPECT_EQ(safe.call<&Safe::kept>().get(), 0);
  between.change(GetParam().from, [done = false, change = GetParam().change](
                                      std::string& bytes, std::string& back) mutable {
    if (!std::exchange(done, true)) change(bytes, back);
  });
  // The call succeeds if the tampered bytes follow it; otherwise it fails before its deadline.
  auto call = safe.within(5s).call<&Safe::keep>(std::string("a secret"));
  try {
    (void)call.get();
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kDeadlineExceeded) << error.what();
  }
  EXPECT_TRUE(eventually([&] { return lost == 2; })) << lines.text();
  EXPECT_TRUE(lines.has("received data failed authentication")) << lines.text();
  one.on_peer_disconnected(nullptr);
  other.on_peer_disconnected(nullptr);
  // The inserted or repeated bytes had no effect.
  System third(plain("third"));
  const auto kept = third.named<Safe>(third.connect(one.self().address), "safe");
  EXPECT_LE(kept.call<&Safe::kept>().get(), 1);
}

/// Returns a call as an unencrypted frame.
std::string call_frame() {
  Call call;
  call.id = 77;
  call.actor = actor_id_of("safe");
  call.interface_fingerprint = interface_version<Safe>().fingerprint;
  call.arguments = encode(std::tuple<std::string>("put in"));
  std::string text;
  encode_call(
      call, [&](const MessageBytes& body) { text = frame(MessageKind::kCall, 3, body.joined()); });
  return text;
}

const Deed kDeeds[] = {
    {"ChangedByTheDialler", From::kDialler,
     [](std::string& bytes, std::string&) { bytes[9] ^= 4; }},
    {"ChangedByTheAcceptor", From::kAcceptor,
     [](std::string& bytes, std::string&) { bytes[9] ^= 4; }},
    {"RepeatedToTheAcceptor", From::kDialler,
     [](std::string& bytes, std::string&) { bytes += bytes; }},
    {"RepeatedToTheDialler", From::kAcceptor,
     [](std::string& bytes, std::string&) { bytes += bytes; }},
    {"ReflectedToTheDialler", From::kDialler,
     [](std::string& bytes, std::string& back) { back = bytes; }},
    {"ReflectedToTheAcceptor", From::kAcceptor,
     [](std::string& bytes, std::string& back) { back = bytes; }},
    {"PlainFrameToTheAcceptor", From::kDialler,
     [](std::string& bytes, std::string&) { bytes = call_frame() + bytes; }},
    {"PlainFrameToTheDialler", From::kAcceptor,
     [](std::string& bytes, std::string&) { bytes = call_frame() + bytes; }},
    {"CutToTheAcceptor", From::kDialler,
     [](std::string& bytes, std::string&) {
       bytes = bytes.substr(0, bytes.size() - 1) + std::string(100'000, 'x');
     }},
};
INSTANTIATE_TEST_SUITE_P(SealedLinks, Tampering, ::testing::ValuesIn(kDeeds),
                         [](const auto& deed) { return std::string(deed.param.name); });

TEST(SealedLinks, ARefusalThatIsPutInBehindTheProofsIsNotBelieved) {
  System one(plain("one")), other(plain("other"));
  (void)one.host<Safe>("safe");
  Between between(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  // Changes the first connection only: the second attempt succeeds.
  between.change(From::kAcceptor, [&, done = false](std::string& bytes, std::string&) mutable {
    if (!std::exchange(done, true)) bytes += reject_frame(2, ErrorCode::kIncompatible);
  });
  const auto safe = other.named<Safe>(other.connect(between.address()), "safe");
  EXPECT_EQ(safe.call<&Safe::kept>().get(), 0);
  EXPECT_GE(between.connections(), 2u);
}

TEST(SealedLinks, ARefusalBeforeTheProofsIsNoEvidence) {
  System one(plain("one")), other(plain("other"));
  (void)one.host<Safe>("safe");
  Between between(Between::Kind::kListens, one.listen({"127.0.0.1", 0}));
  between.change(From::kAcceptor, [](std::string& bytes, std::string&) {
    bytes = reject_frame(0, ErrorCode::kPeerDied);
  });
  EXPECT_EQ(error_of([&] { (void)other.connect(between.address()); }).code(),
            ErrorCode::kUnavailable);
  ProcessRef there = one.self();
  there.address = between.address();
  const Error error =
      error_of([&] { (void)other.named<Safe>(there, "safe").call<&Safe::kept>().get(); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("go away"));
}

TEST(SealedLinks, AConnectionToTheHeadIsNotMadeToAnotherProcess) {
  LogLines lines;
  System agent(plain("agent", &lines)), driver(plain("driver"));
  auto options = plain("head");
  options.is_head = true;
  System head(options);
  const Error error = error_of([&] {
    (void)driver.connect(agent.listen({"127.0.0.1", 0}), 10s, {.head = true});
  });
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("driver (weft, pid"),
                    HasSubstr("tried to connect to a head, but agent (weft, pid")));
  EXPECT_TRUE(agent.peers().empty());
  EXPECT_TRUE(lines.has("tried to connect to a head"));
  EXPECT_EQ(driver.connect(head.listen({"127.0.0.1", 0}), 10s, {.head = true}).name, "head");
}

TEST(SealedLinks, AConnectionToTheHeadIsNotMadeToAConnectedProcessAtItsAddress) {
  System agent(plain("agent")), driver(plain("driver"));
  const Address at = agent.listen({"127.0.0.1", 0});
  // Models a port of an ended head that was given to another process.
  EXPECT_EQ(driver.connect(at).id, agent.self().id);
  const Error error = error_of([&] { (void)driver.connect(at, 10s, {.head = true}); });
  EXPECT_THAT(error.message(), HasSubstr("driver (weft, pid"));
  EXPECT_THAT(error.message(), HasSubstr("tried to connect to a head, but agent (weft, pid"));
  EXPECT_EQ(driver.connect(at).id, agent.self().id);
  EXPECT_EQ(driver.peers().size(), 1u);
}

TEST(SealedLinks, ASecondConnectToTheHeadKeepsTheConnection) {
  auto options = plain("head");
  options.is_head = true;
  System head(options), driver(plain("driver"));
  std::atomic<int> lost = 0;
  driver.on_peer_disconnected([&](const ProcessRef&, const Error&, DisconnectCause) { ++lost; });
  const Address at = head.listen({"127.0.0.1", 0});
  EXPECT_EQ(driver.connect(at).id, head.self().id);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(driver.connect(at, 10s, {.head = true}).id, head.self().id) << i;
  EXPECT_EQ(driver.peers().size(), 1u);
  EXPECT_EQ(lost, 0);
}

TEST(SealedLinks, AConnectionToAProcessIsNotMadeToAnotherProcess) {
  System agent(plain("agent")), device(plain("device"));
  const Address at = agent.listen({"127.0.0.1", 0});
  const Error error = error_of([&] { (void)device.connect(at, 10s, {.process = ProcessId(7)}); });
  EXPECT_EQ(error.code(), ErrorCode::kPeerDied) << error.what();
  EXPECT_TRUE(agent.peers().empty());
  EXPECT_EQ(device.connect(at, 10s, {.process = agent.self().id}).id, agent.self().id);
}

TEST(SealedLinks, LocalhostIsWhereAHeadListens) {
  System head(plain("head")), agent(plain("agent"));
  const Address at = head.listen({"localhost", 0});
  // "localhost" never resolves to [::1], whatever the machine's resolver says.
  System other(plain("other"));
  try {
    (void)other.listen({"::1", at.port});
  } catch (const Error&) {
    GTEST_SKIP() << "this machine has no ::1";
  }
  EXPECT_EQ(agent.connect({"localhost", at.port}).id, head.self().id);
  EXPECT_EQ(agent.connect({"127.0.0.1", at.port}).id, head.self().id);
}

}  // namespace
}  // namespace weft::actors
