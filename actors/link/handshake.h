#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/message/message.h"
#include "actors/message/message_frames.h"
#include "actors/net/connection.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/base/sha256.h"

namespace weft::actors {

/// First frames of a connection, on either side. Both sides prove that they know the cluster's
/// token before anything else is read. Until then a frame is limited to 4 KiB. The handshake must
/// finish within 3 seconds.
///
///   dialler:  Hello ->                      acceptor:  -> Hello
///             <- Challenge, Proof | Reject             Challenge, Proof <-
///             Proof ->                                 -> Proof
///             <- Welcome | Reject                      Welcome | Reject <-    (by the owner)
///
/// All frames after the dialler's proof, Welcome first, are encrypted and authenticated. TLS does
/// that, or a ByteStream with keys of this connection (net/encrypted_stream.h). Exception: a stream
/// that the system lets nobody but this user read or change (ByteStream::is_private). A Reject
/// after the proofs therefore comes from the cluster. A Reject before them can come from anybody.
///
/// A proof is an HMAC with the token over a label of its direction, both introductions as sent,
/// which carry fresh nonces, and the channel binding of TLS, if any. It is thus valid for this
/// connection and direction only, and useless to a man in the middle. The token itself is never
/// sent. While a token is being replaced, both sides use one that both know; the introductions name
/// it. The keys are HMACs of the same token and introductions under labels of their own, one for
/// each direction, so that no key equals a value that is sent. The introductions say which ciphers
/// both support.
///
/// A plaintext peer is rejected at Hello if TLS is required, and gets no proof.
///
/// Owned by the system; loop's thread only.
class Handshake final : public FrameHandler {
 public:
  enum class Side { kDialler, kAcceptor };
  /// Introduction of the other side, which has proven the token; or its refusal; or an error.
  using Answer = std::variant<PeerDescription, Reject, Error>;
  /// Called once, on the loop's thread. May take the connection with release(). Must not destroy
  /// the Handshake during the call.
  using Done = std::function<void(Answer)>;
  static constexpr std::uint32_t kMaxBody = 4096;
  /// Time limit for the other side.
  static constexpr Nanoseconds kTimeLimit = std::chrono::seconds(3);

  /// Prepares a handshake. This side's preferred token is the first of `tokens`.
  Handshake(EventLoop& loop, std::shared_ptr<Connection> connection, Side side,
            std::vector<Secret> tokens, Done done);
  ~Handshake() override;

  /// Sends Hello if this is the dialler, and reads. Ends at once with an error if `self` exceeds
  /// kMaxBody.
  void start(PeerDescription self);
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// Returns the token that both sides have proven.
  const Secret& token() const { return tokens_[chosen_]; }
  /// Hands the connection to its user; the Handshake no longer closes it.
  std::shared_ptr<Connection> release() { return std::move(connection_); }
  /// Sends a refusal to the other side.
  void refuse(const Reject& reject);

  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override;
  void on_protocol_error(const Error& damage) override;
  void on_closed(const Error& reason) override;

 private:
  void on_hello(std::span<const std::byte> body);
  void on_challenge(std::span<const std::byte> body);
  void on_proof(std::span<const std::byte> body);
  /// Selects the token with this id, if this side has it.
  void select_token(std::uint64_t id);
  void encode_introduction();
  Mac proof_of(Side side) const;
  void send_proof();
  /// Encrypts the connection from now on, unless TLS does. Both sides have proven the token.
  void seal();
  void refuse_plain();
  void finish(Answer answer);

  std::shared_ptr<Connection> connection_;  // shared with its own pending reads
  const Side side_;
  const std::vector<Secret> tokens_;
  std::size_t chosen_ = 0;
  Done done_;
  Timer limit_;
  MessageKind expected_;
  PeerDescription self_;
  PeerDescription other_;
  std::vector<std::byte> hello_;
  std::vector<std::byte> challenge_;
};

}  // namespace weft::actors
