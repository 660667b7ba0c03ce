#include "actors/link/handshake.h"

#include <algorithm>

#include "actors/link/compatibility.h"
#include "actors/link/token_keyring.h"
#include "actors/net/encrypted_stream.h"

namespace weft::actors {

Handshake::Handshake(EventLoop& loop, std::shared_ptr<Connection> connection, Side side,
                     std::vector<Secret> tokens, Done done)
    : connection_(std::move(connection)),
      side_(side),
      tokens_(std::move(tokens)),
      done_(std::move(done)),
      limit_(loop),
      expected_(side == Side::kAcceptor ? MessageKind::kHello : MessageKind::kChallenge) {}

Handshake::~Handshake() {
  if (connection_) connection_->stop();
}

void Handshake::start(PeerDescription self) {
  self_ = std::move(self);
  self_.nonce = Secret::random().bytes();
  encode_introduction();
  const auto& own = side_ == Side::kDialler ? hello_ : challenge_;
  if (own.size() > kMaxBody)
    return finish(Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: its handshake message has {} bytes; the limit before authentication is {} "
                    "bytes; give the process a shorter name",
                    describe(self_), own.size(), kMaxBody)));
  limit_.start_after(kTimeLimit, [this] {
    finish(
        Error(ErrorCode::kUnavailable,
              fmt::format("{} {} but sent no Weft handshake within 3 s; check that a Weft process "
                          "listens there and is not stopped",
                          to_string(connection_->peer_address()),
                          side_ == Side::kDialler ? "accepted the connection" : "connected")));
  });
  connection_->start(*this, kMaxBody);
  if (side_ == Side::kAcceptor) return;
  append_message(*connection_, MessageKind::kHello, {hello_, {}});
  connection_->flush();
}

void Handshake::encode_introduction() {
  self_.token_id = token_id(token());
  auto& own = side_ == Side::kDialler ? hello_ : challenge_;
  const ByteSink keep = [&own](const MessageBytes& bytes) { own = bytes.joined(); };
  if (side_ == Side::kDialler) encode_hello(self_, keep);
  else encode_challenge(self_, keep);
}

void Handshake::select_token(std::uint64_t id) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    if (token_id(tokens_[i]) == id) chosen_ = i;
}

void Handshake::on_frame(const FrameHeader& header, std::span<const std::byte> body) {
  const auto kind = static_cast<MessageKind>(header.kind);
  if (!done_) return;  // a refused peer may still send
  if (kind == MessageKind::kReject && expected_ != MessageKind::kHello) {
    Reject reject = decode_reject(body);
    reject.authenticated = expected_ == MessageKind::kWelcome;
    return finish(std::move(reject));
  }
  if (kind != expected_)
    throw_error(ErrorCode::kDataLoss, "{} sent a {} frame in place of a {}",
                to_string(connection_->peer_address()), to_string(kind), to_string(expected_));
  switch (kind) {
    case MessageKind::kHello: return on_hello(body);
    case MessageKind::kChallenge: return on_challenge(body);
    case MessageKind::kProof: return on_proof(body);
    default: return finish(other_);  // Welcome
  }
}

void Handshake::on_hello(std::span<const std::byte> body) {
  other_ = decode_hello(body);
  if (connection_->violates_tls_policy()) return refuse_plain();
  hello_.assign(body.begin(), body.end());
  select_token(other_.token_id);
  encode_introduction();
  append_message(*connection_, MessageKind::kChallenge, {challenge_, {}});
  send_proof();
  expected_ = MessageKind::kProof;
}

void Handshake::on_challenge(std::span<const std::byte> body) {
  other_ = decode_challenge(body);
  challenge_.assign(body.begin(), body.end());
  select_token(other_.token_id);
  expected_ = MessageKind::kProof;
}

void Handshake::on_proof(std::span<const std::byte> body) {
  const Side theirs = side_ == Side::kDialler ? Side::kAcceptor : Side::kDialler;
  if (!equal_in_constant_time(body, proof_of(theirs))) {
    // Over TLS, a proof that was made for another connection fails, too.
    const char* const between = connection_->channel_binding().empty()
                                    ? ""
                                    : ", or a machine in between terminates the TLS connection";
    refuse({ErrorCode::kFailedPrecondition,
            fmt::format("the token is wrong: it is not that of {}{}", describe(self_), between),
            kTokenHint, false, self_.process.id});
    return finish(
        Error(ErrorCode::kFailedPrecondition,
              fmt::format("the token is wrong: it is not that of {} at {}{}; {}", describe(other_),
                          to_string(connection_->peer_address()), between, kTokenHint)));
  }
  if (side_ == Side::kDialler) send_proof();
  seal();
  if (side_ == Side::kAcceptor) return finish(other_);
  expected_ = MessageKind::kWelcome;
}

void Handshake::seal() {
  if (!connection_->channel_binding().empty()) return;  // TLS encrypts already
  const auto key = [this](const char* label) {
    return hmac_sha256(token(), label, {hello_, challenge_});
  };
  const Mac diallers = key("weft 3 key dialler"), acceptors = key("weft 3 key acceptor");
  const Aead::Cipher cipher = Aead::choose(self_.has_aes, other_.has_aes);
  connection_->seal(side_ == Side::kDialler ? StreamKeys{cipher, diallers, acceptors}
                                            : StreamKeys{cipher, acceptors, diallers});
}

Mac Handshake::proof_of(Side side) const {
  const char* const label = side == Side::kDialler ? "weft 3 dialler" : "weft 3 acceptor";
  const auto binding = connection_->channel_binding();
  return binding.empty() ? hmac_sha256(token(), label, {hello_, challenge_})
                         : hmac_sha256(token(), label, {hello_, challenge_, binding});
}

void Handshake::refuse_plain() {
  const std::string from = to_string(connection_->peer_address());
  refuse(
      {ErrorCode::kFailedPrecondition,
       fmt::format("{} requires TLS beyond loopback, and {} at {} connected without TLS",
                   describe(self_), describe(other_), from),
       "start it without --insecure; if it was not given, install the same Weft on both hosts, or "
       "use the head's own address",
       false, self_.process.id});
  finish(Error(
      ErrorCode::kFailedPrecondition,
      fmt::format("{} at {} connected without TLS, which is required beyond loopback: start it "
                  "without --insecure, or install the same Weft there",
                  describe(other_), from)));
}

void Handshake::send_proof() {
  append_message(*connection_, MessageKind::kProof, {proof_of(side_), {}});
  connection_->flush();
}

void Handshake::refuse(const Reject& reject) {
  encode_reject(reject, [&](const MessageBytes& bytes) {
    append_message(*connection_, MessageKind::kReject, bytes);
  });
  connection_->flush();
}

void Handshake::on_protocol_error(const Error& damage) {
  // A peer of another major version can read at least the version of this frame. No other peer gets
  // an answer.
  if (side_ == Side::kAcceptor && damage.code() == ErrorCode::kIncompatible)
    refuse({damage.code(), damage.message(), "", false, self_.process.id});
}

void Handshake::on_closed(const Error& reason) {
  // Data was injected on the way, before the acceptor answered. Dialling again may succeed.
  const bool damaged = expected_ == MessageKind::kWelcome && reason.code() == ErrorCode::kDataLoss;
  finish(damaged ? Error(ErrorCode::kUnavailable, reason.message()) : reason);
}

void Handshake::finish(Answer answer) {
  limit_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(answer));
}

}  // namespace weft::actors
