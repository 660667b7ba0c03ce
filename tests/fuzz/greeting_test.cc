// Tests a process against the bytes of unauthenticated peers: TLS records, and handshakes in
// plaintext and over TLS.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>

#include "actors/access/connection_security.h"
#include "actors/access/token.h"
#include "actors/link/handshake.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/cluster_token.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

using Bytes = std::vector<std::byte>;

/// Other end of a stream. All calls are on the loop's thread.
class Stranger {
 public:
  virtual ~Stranger() = default;
  /// Receives `bytes` and appends the reply to `says`. An empty reply ends the stream.
  virtual void hear(std::span<const std::byte> bytes, Bytes& says) = 0;
};

/// Stream to a Stranger in this process. Loop's thread only.
class StrangerStream final : public ByteStream {
 public:
  StrangerStream(EventLoop& loop, Stranger& stranger, Bytes first)
      : loop_(loop), stranger_(stranger), says_(std::move(first)) {}
  ~StrangerStream() override { *alive_ = false; }

  Address peer_address() const override { return {"192.0.2.9", 1}; }
  void read_some(std::span<std::byte> into,
                 std::function<void(std::size_t, const std::optional<Error>&)> then) override {
    loop_.post([this, alive = alive_, into, then = std::move(then)] {
      if (!*alive) return;
      if (shut_ || says_.empty())
        return then(0, Error(ErrorCode::kUnavailable, "connection closed by the other side"));
      const std::size_t count = std::min(into.size(), says_.size());
      std::copy_n(says_.begin(), count, into.begin());
      says_.erase(says_.begin(), says_.begin() + static_cast<std::ptrdiff_t>(count));
      then(count, std::nullopt);
    });
  }
  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    if (shut_) return std::nullopt;
    stranger_.hear(bytes, says_);
    return bytes.size();
  }
  void wait_for_room(std::function<void(bool)> then) override { then(!shut_); }
  void shut_down() override { shut_ = true; }

 private:
  EventLoop& loop_;
  Stranger& stranger_;
  Bytes says_;
  bool shut_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Bytes frame(MessageKind kind, std::span<const std::byte> body, std::uint64_t sequence) {
  FrameHeader header;
  header.major = kProtocolMajor;
  header.minor = kProtocolMinor;
  header.kind = static_cast<std::uint8_t>(kind);
  header.length = static_cast<std::uint32_t>(body.size());
  header.sequence = sequence;
  const auto packed = pack(header);
  Bytes bytes(packed.begin(), packed.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  bytes.resize(kFrameHeaderBytes + padded(body.size()));
  return bytes;
}

Bytes kept(const std::function<void(const ByteSink&)>& encode_message) {
  Bytes bytes;
  encode_message([&](const MessageBytes& message) { bytes = message.joined(); });
  return bytes;
}

PeerDescription of_stranger(test::Mutator& mutator) {
  PeerDescription it;
  it.process = {ProcessId(1 + mutator.below(1000)), "stranger", {"192.0.2.9", 4711}};
  it.pid = 99;
  it.binary_name = "gpt";
  it.run = 0x1234;
  it.token_id = mutator.below(2) == 0 ? 0 : mutator.below(1 << 20);
  return it;
}

/// Returns a dialling peer's Hello and Proof, often damaged. The proof is never valid.
Bytes greeting(test::Mutator& mutator) {
  Bytes hello = kept([&](const ByteSink& sink) { encode_hello(of_stranger(mutator), sink); });
  if (mutator.below(3) == 0) hello = mutator.damage(hello);
  hello.resize(std::min<std::size_t>(hello.size(), 5000));
  const Bytes proof(mutator.below(4) == 0 ? mutator.below(64) : 32, std::byte{7});
  Bytes said = frame(MessageKind::kHello, hello, 0);
  const Bytes more = frame(MessageKind::kProof, proof, 1);
  said.insert(said.end(), more.begin(), more.end());
  return mutator.below(2) == 0 ? mutator.damage(said) : said;
}

/// Returns the reply of a listening peer, often damaged.
Bytes answer(test::Mutator& mutator) {
  Bytes challenge =
      kept([&](const ByteSink& sink) { encode_challenge(of_stranger(mutator), sink); });
  if (mutator.below(3) == 0) challenge = mutator.damage(challenge);
  challenge.resize(std::min<std::size_t>(challenge.size(), 5000));
  Bytes said;
  const auto add = [&](const Bytes& more) { said.insert(said.end(), more.begin(), more.end()); };
  if (mutator.below(4) == 0) {
    add(frame(MessageKind::kReject, kept([](const ByteSink& sink) {
                encode_reject({ErrorCode::kIncompatible, "no", "go", true, ProcessId(3)}, sink);
              }),
              0));
  } else {
    add(frame(MessageKind::kChallenge, challenge, 0));
    add(frame(MessageKind::kProof, Bytes(32, std::byte{7}), 1));
    add(frame(MessageKind::kWelcome, {}, 2));
  }
  return mutator.below(2) == 0 ? mutator.damage(said) : said;
}

/// Peer that sends prepared bytes and ignores what it receives.
class PlainStranger final : public Stranger {
 public:
  void hear(std::span<const std::byte>, Bytes&) override {}
};

/// Peer that speaks TLS correctly, except for one damaged flight.
class TlsStranger final : public Stranger {
 public:
  TlsStranger(std::unique_ptr<TlsSession> session, Bytes says, test::Mutator& mutator)
      : session_(std::move(session)),
        says_(std::move(says)),
        mutator_(mutator),
        damages_(mutator.below(6)) {}

  Bytes begin() {
    Bytes first;
    (void)session_->handshake();
    say(first);
    return first;
  }
  void hear(std::span<const std::byte> bytes, Bytes& says) override {
    if (broken_) return;
    for (std::size_t done = 0; done < bytes.size();) {
      const auto room = session_->receive_buffer();
      const std::size_t part = std::min(room.size(), bytes.size() - done);
      if (part == 0) return;
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(done), part, room.begin());
      session_->commit_received(part);
      done += part;
    }
    try {
      if (!open_ && session_->handshake()) {
        open_ = true;
        session_->write(says_);
      }
      if (open_) {
        std::array<std::byte, 4096> into;
        while (session_->read(into) != 0) {
        }
      }
    } catch (const Error&) {
      broken_ = true;  // the process under test has refused the connection
    }
    say(says);
  }

 private:
  /// Appends the session's next flight to `says`; damages the chosen one.
  void say(Bytes& says) {
    Bytes flight;
    session_->take_output(flight);
    if (flight.empty()) return;
    if (flight_++ == damages_) flight = mutator_.damage(flight);
    says.insert(says.end(), flight.begin(), flight.end());
  }

  const std::unique_ptr<TlsSession> session_;
  const Bytes says_;
  test::Mutator& mutator_;
  const std::uint64_t damages_;
  std::uint64_t flight_ = 0;
  bool open_ = false, broken_ = false;
};

/// Runs a process's handshake with a Stranger until it ends. Expects that it never succeeds.
class Greeter final {
 public:
  void greet(Handshake::Side side, TlsPolicy* tls, Stranger& stranger, const Bytes& first) {
    bool over = false;
    loop_.run_and_wait([&] {
      std::unique_ptr<ByteStream> stream = std::make_unique<StrangerStream>(loop_, stranger, first);
      if (tls != nullptr)
        stream = side == Handshake::Side::kAcceptor ? tls->wrap_accepted(std::move(stream))
                                                    : tls->wrap_dialled(std::move(stream), "");
      handshake_ = std::make_unique<Handshake>(
          loop_, std::make_shared<Connection>(loop_, std::move(stream)), side,
          std::vector<Secret>{test::cluster_token(), Secret::random()},
          [&](const Handshake::Answer& answer) {
            over = true;
            EXPECT_FALSE(std::holds_alternative<PeerDescription>(answer));
            ++(std::holds_alternative<Reject>(answer) ? rejects_ : errors_);
          });
      PeerDescription self;
      self.process = {ProcessId(5), "head", {"192.0.2.1", 7077}};
      handshake_->start(self);
    });
    for (bool done = false; !done;) loop_.run_and_wait([&] { done = over; });
    loop_.run_and_wait([&] { handshake_.reset(); });
    loop_.run_and_wait([] {});
  }
  int rejects() const { return rejects_; }
  int errors() const { return errors_; }

 private:
  EventLoop loop_{"greeter"};
  std::unique_ptr<Handshake> handshake_;
  int rejects_ = 0, errors_ = 0;
};

TEST(GreetingFuzz, ADiallerWithoutTheTokenIsNeverAccepted) {
  test::FuzzTime time(600);
  test::Mutator mutator(11 + time.seed());
  Greeter greeter;
  TlsPolicy tls(TlsMode::kBeyondLoopback);
  const auto other = tls_library().make_context(tls_library().make_identity());
  while (time.more()) {
    SCOPED_TRACE(time.round());
    if (mutator.below(3) == 0) {
      PlainStranger stranger;
      greeter.greet(Handshake::Side::kAcceptor, mutator.below(2) == 0 ? &tls : nullptr, stranger,
                    greeting(mutator));
    } else {
      TlsStranger stranger(other->dial(""), greeting(mutator), mutator);
      greeter.greet(Handshake::Side::kAcceptor, &tls, stranger, stranger.begin());
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(greeter.errors(), 500);
}

TEST(GreetingFuzz, AListenerWithoutTheTokenIsNeverAccepted) {
  test::FuzzTime time(600);
  test::Mutator mutator(13 + time.seed());
  Greeter greeter;
  TlsPolicy tls(TlsMode::kBeyondLoopback);
  const auto other = tls_library().make_context(tls_library().make_identity());
  while (time.more()) {
    SCOPED_TRACE(time.round());
    if (mutator.below(3) == 0) {
      PlainStranger stranger;
      greeter.greet(Handshake::Side::kDialler, mutator.below(2) == 0 ? &tls : nullptr, stranger,
                    answer(mutator));
    } else {
      TlsStranger stranger(other->accept(), answer(mutator), mutator);
      greeter.greet(Handshake::Side::kDialler, &tls, stranger, {});
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(greeter.errors(), 300);
  EXPECT_GT(greeter.rejects(), 10);
}

/// Reads a head's damaged identity and token files. Each is refused with an error or read.
TEST(GreetingFuzz, DamagedFilesOfTokensAndCertificatesAreRefusedOrRead) {
  test::FuzzTime time(100);
  test::Mutator mutator(17 + time.seed());
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "state";
  write_token(folder, test::cluster_token());
  add_former_token(folder, Secret::random(), {ProcessId(1), ProcessId(2)});
  add_former_token(folder, Secret::random(), {ProcessId(3)});
  (void)load_or_make_identity(folder);
  const auto content = [](const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  int refused = 0;
  while (time.more()) {
    for (const char* name : {"token", "token.former", "key.pem", "certificate.pem"}) {
      SCOPED_TRACE(std::to_string(time.round()) + name);
      const std::string sound = content(folder / name);
      std::ofstream(folder / name, std::ios::binary | std::ios::trunc) << mutator.damage(sound);
      try {
        (void)read_token_file(folder / "token");
        (void)read_former_tokens(folder);
        (void)load_or_make_identity(folder);
      } catch (const Error& error) {
        ++refused;
        ASSERT_EQ(error.code(), ErrorCode::kFailedPrecondition) << error.what();
      }
      std::ofstream(folder / name, std::ios::binary | std::ios::trunc) << sound;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weft::actors
