#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/message/chunks.h"
#include "actors/message/message.h"
#include "actors/net/connection.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/base/sha256.h"

namespace weft::actors {

/// The first frames of a connection, on either side. Both sides prove that they know the cluster's
/// token before anything else is read; until then no frame may be longer than 4 KiB, and all has to
/// be done within 3 seconds.
///
///   dialler:  Hello ->                      acceptor:  -> Hello
///             <- Challenge, Proof | Reject             Challenge, Proof <-
///             Proof ->                                 -> Proof
///             <- Welcome | Reject                      Welcome | Reject <-    (by the owner)
///
/// What follows the dialler's proof is encrypted and authenticated, Welcome first: by TLS, and
/// without TLS by a Stream with keys of this connection (net/sealed_stream.h). Such a Reject comes
/// from the cluster. One that comes before the proofs can come from anybody.
///
/// A proof is an HMAC with the token over a label of its direction, both introductions as they were
/// sent, which carry fresh nonces, and what only the two ends of a TLS connection know. So it is
/// good for this connection and this direction only, and not for somebody between two connections.
/// The token itself never travels. While a token is being replaced, both sides use one that both
/// know: the introductions say which. The keys are HMACs of the same token and introductions under
/// labels of their own, one for each direction, so that no key is a value that travels. The
/// introductions say which ciphers both can do.
///
/// Who speaks plain text where TLS is due is told so at Hello, and proves nothing.
///
/// Owned by the system; loop's thread only.
class Handshake final : public FrameHandler {
 public:
  enum class Side { kDialler, kAcceptor };
  /// What the other side, which knows the token, said; or how it failed.
  using Answer = std::variant<Introduction, Reject, Error>;
  /// Runs once, on the loop's thread. May take the connection with release(), and may destroy the
  /// Handshake later, not in it.
  using Done = std::function<void(Answer)>;
  static constexpr std::uint32_t kMaxBody = 4096;
  /// Time that the other side has for its part.
  static constexpr Nanoseconds kWithin = std::chrono::seconds(3);

  /// `tokens`: the one that this side would use comes first.
  Handshake(EventLoop& loop, std::shared_ptr<Connection> connection, Side side,
            std::vector<Secret> tokens, Done done);
  ~Handshake() override;

  /// Sends Hello if this is the dialler, and listens. Ends at once when `self` does not fit into
  /// kMaxBody.
  void start(Introduction self);
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// The token that both sides have proven.
  const Secret& token() const { return tokens_[chosen_]; }
  /// Hands the connection to its user; the Handshake no longer closes it.
  std::shared_ptr<Connection> release() { return std::move(connection_); }
  /// Tells the other side why it is refused.
  void refuse(const Reject& reject);

  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override;
  void on_damaged(const Error& damage) override;
  void on_closed(const Error& reason) override;

 private:
  void on_hello(std::span<const std::byte> body);
  void on_challenge(std::span<const std::byte> body);
  void on_proof(std::span<const std::byte> body);
  /// The token of that name, if this side knows it.
  void choose(std::uint64_t id);
  void introduce();
  Mac proof_of(Side side) const;
  void send_proof();
  /// Both have proven the token.
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
  Introduction self_;
  Introduction other_;
  std::vector<std::byte> hello_;
  std::vector<std::byte> challenge_;
};

}  // namespace weft::actors
