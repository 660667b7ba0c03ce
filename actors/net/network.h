#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/outcome.h"
#include "core/base/platform.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Connected socket: a byte stream in each direction. Belongs to the I/O loop that made it.
/// Functions are for the loop's thread unless they say otherwise; callbacks run there.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Address peer_address() const = 0;

  /// Calls back once: with the number of bytes read, or with the error after which no bytes will
  /// come. That is kUnavailable if the other side closed. `into` stays valid until then.
  virtual void read_some(std::span<std::byte> into,
                         std::function<void(std::size_t, const std::optional<Error>&)> then) = 0;
  /// Writes as many bytes as there is room for, perhaps none. Returns their number, or nullopt if
  /// the stream takes no more ever. Any thread, one at a time.
  virtual std::optional<std::size_t> write_some(std::span<const std::byte> bytes) = 0;
  /// Calls back once: with true when there is room, with false if there never will be.
  virtual void wait_for_room(std::function<void(bool)> then) = 0;
  /// Ends both directions. The other side reads what was written, then EOF; a pending read here
  /// ends. Any thread.
  virtual void shut_down() = 0;

  /// Returns true if the system lets nobody but this user, as which the other side runs, and root
  /// read or change the data.
  virtual bool is_private() const { return false; }
  /// Closes the stream if its TLS handshake is not over. Returns true if it did so.
  virtual bool abort_handshake() { return false; }
  /// Returns the TLS channel binding, which only the two ends know; empty without TLS. Valid from
  /// the first byte read on.
  virtual std::span<const std::byte> channel_binding() const { return {}; }
  /// Returns true if the other side speaks plain text although it must use TLS; it gets a refusal.
  virtual bool violates_tls_policy() const { return false; }
};

/// Implementation of an EventLoop: one thread's callbacks, timers and sockets, by Asio or of a
/// simulated world.
class IoLoop {
 public:
  /// One-shot timer. Another start() or cancel() replaces an earlier start(), whose callback may
  /// still come if it is queued already.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void start(TimePoint at, std::function<void()> then) = 0;
    virtual void cancel() = 0;
  };
  /// Listening socket.
  class StreamAcceptor {
   public:
    using Then = std::function<void(Outcome<std::unique_ptr<ByteStream>>)>;
    virtual ~StreamAcceptor() = default;
    /// Returns the address with the port that the system chose.
    virtual Address address() const = 0;
    /// Calls back once, with a connection or with the reason why there is none at the moment; not
    /// after close().
    virtual void accept(Then then) = 0;
    virtual void close() = 0;
  };
  /// Maker of outgoing connections, one at a time.
  class StreamConnector {
   public:
    virtual ~StreamConnector() = default;
    /// Calls back once: with the connection, with kNotFound if no host has that name, or with
    /// kUnavailable and the system's reason. Not after cancel().
    virtual void connect(const Address& address,
                         std::function<void(Outcome<std::unique_ptr<ByteStream>>)> then) = 0;
    virtual void cancel() = 0;
  };

  /// Sockets on loopback. A relay uses TCP alone, so that both sides of it encrypt.
  enum class OnLoopback { kUnixOrTcp, kTcp };

  /// Ends the thread and drops callbacks that have not run.
  virtual ~IoLoop() = default;
  virtual void post(std::function<void()> callback) = 0;  // any thread
  virtual bool in_loop() const = 0;                       // any thread
  virtual void stop() = 0;                                // any thread but the loop's
  virtual std::unique_ptr<Alarm> make_alarm() = 0;
  /// Listens. Throws Error(kUnavailable) with the system's reason. Any thread.
  virtual std::unique_ptr<StreamAcceptor> listen(const Address& address, OnLoopback sockets) = 0;
  virtual std::unique_ptr<StreamConnector> make_connector(OnLoopback sockets) = 0;
};

/// Factory of the loops of a simulated world; see Platform.
class ControlNetwork {
 public:
  virtual ~ControlNetwork() = default;
  /// Returns the network of the simulation; null in a real process, and if it has none.
  static ControlNetwork* simulated() {
    return dynamic_cast<ControlNetwork*>(Platform::simulated());
  }
  virtual std::unique_ptr<IoLoop> make_loop(const std::string& thread_name) = 0;
  /// Returns the host at which others reach the running process.
  virtual std::string own_host() = 0;
};

/// Creates a loop of the real world.
std::unique_ptr<IoLoop> make_asio_loop(const std::string& thread_name, ThreadPriority share);

/// Returns this machine's address on the route to `peer`, at which others reach it; 127.0.0.1 if
/// unknown. Sends nothing.
std::string local_address_towards(const Address& peer);

}  // namespace weft::actors
