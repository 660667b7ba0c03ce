#pragma once

#include <functional>
#include <memory>
#include <variant>

#include "actors/message/chunks.h"
#include "actors/message/message.h"
#include "core/net/connection.h"

namespace weft::actors {

/// The first two frames of a connection, on either side. Until they are exchanged nothing else is read, no frame may be
/// longer than 64 KiB, and all has to be done within 3 seconds.
///
///   dialler:  Hello ->            acceptor:  -> Hello
///             <- Welcome | Reject            Welcome | Reject <-    (written by the owner)
///
/// Owned by the system; loop's thread only.
class Greeting final : public FrameHandler {
 public:
  enum class Side { kDialler, kAcceptor };
  /// What the other side said, or how it failed.
  using Answer = std::variant<Introduction, Reject, Error>;
  /// Runs once, on the loop's thread. May take the connection with release(), and may destroy the Greeting later, not in it.
  using Done = std::function<void(Answer)>;

  Greeting(EventLoop& loop, std::shared_ptr<Connection> connection, Side side, Done done);
  ~Greeting() override;

  /// Sends Hello if this is the dialler, and listens.
  void start(const Introduction& self);
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// Hands the connection to its user; the Greeting no longer closes it.
  std::shared_ptr<Connection> release() { return std::move(connection_); }

  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override;
  void on_closed(const Error& reason) override;

 private:
  void finish(Answer answer);

  std::shared_ptr<Connection> connection_;  // shared with its own pending reads
  const Side side_;
  Done done_;
  Timer limit_;
};

}  // namespace weft::actors
