#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/message/chunks.h"
#include "actors/message/message.h"
#include "actors/net/connection.h"
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
/// A proof is an HMAC with the token over a label of its direction and both introductions as they
/// were sent, which carry fresh nonces. So it is good for this connection and this direction only.
/// The token itself never travels.
///
/// Owned by the system; loop's thread only.
class Handshake final : public FrameHandler {
 public:
  enum class Side { kDialler, kAcceptor };
  /// What the other side, which knows the token, said; or how it failed. A Reject may come from one
  /// that has proven nothing.
  using Answer = std::variant<Introduction, Reject, Error>;
  /// Runs once, on the loop's thread. May take the connection with release(), and may destroy the
  /// Handshake later, not in it.
  using Done = std::function<void(Answer)>;
  static constexpr std::uint32_t kMaxBody = 4096;

  Handshake(EventLoop& loop, std::shared_ptr<Connection> connection, Side side, const Secret& token,
            Done done);
  ~Handshake() override;

  /// Sends Hello if this is the dialler, and listens. Ends at once when `self` does not fit into
  /// kMaxBody.
  void start(Introduction self);
  const std::shared_ptr<Connection>& connection() const { return connection_; }
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
  Mac proof_of(Side side) const;
  void send_proof();
  void finish(Answer answer);

  std::shared_ptr<Connection> connection_;  // shared with its own pending reads
  const Side side_;
  const Secret token_;
  Done done_;
  Timer limit_;
  MessageKind expected_;
  Introduction self_;
  Introduction other_;
  std::vector<std::byte> hello_;
  std::vector<std::byte> challenge_;
};

}  // namespace weft::actors
