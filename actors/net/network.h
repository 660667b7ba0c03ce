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
#include "core/base/thread.h"

namespace weft::actors {

/// A connected pair of byte streams, one each way: a socket. Belongs to the I/O loop it was made
/// on; functions are of the loop's thread, but where they say otherwise. Callbacks run there.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Address peer_address() const = 0;

  /// Calls back once, when some bytes have come, with how many; or with why none will, which is
  /// kUnavailable. `into` stays until then.
  virtual void read_some(std::span<std::byte> into,
                         std::function<void(std::size_t, const std::optional<Error>&)> then) = 0;
  /// Takes as many bytes as it has room for, perhaps none; nothing when it takes no more ever. Any
  /// thread, one at a time.
  virtual std::optional<std::size_t> write_some(std::span<const std::byte> bytes) = 0;
  /// Calls back once, when there is room; false when there never will be.
  virtual void wait_for_room(std::function<void(bool)> then) = 0;
  /// Ends both directions: the other side reads what was written, and then the end; a read that
  /// waits here ends. Any thread.
  virtual void shut_down() = 0;

  /// Ends it where what has to come before the first byte is not over; true if so.
  virtual bool give_up() { return false; }
  /// What both ends know, and nobody between them; empty where nothing is encrypted. From the first
  /// byte read on.
  virtual std::span<const std::byte> binding() const { return {}; }
  /// The other side speaks plain text, and is to be told that it must not.
  virtual bool is_plain_by_mistake() const { return false; }
};

/// What an EventLoop runs on: one thread's callbacks, timers and sockets. Asio's over the system's,
/// or those of a simulated world.
class IoLoop {
 public:
  /// Calls back at a time, unless another start() or cancel() comes first; a call that is on its
  /// way may still come.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void start(TimePoint at, std::function<void()> then) = 0;
    virtual void cancel() = 0;
  };
  /// Waits for others to connect.
  class Acceptor {
   public:
    virtual ~Acceptor() = default;
    /// With the port that the system chose.
    virtual Address address() const = 0;
    /// Calls back once, with a connection or with why there is none at the moment; not after
    /// close().
    virtual void accept(std::function<void(Outcome<std::unique_ptr<Stream>>)> then) = 0;
    virtual void close() = 0;
  };
  /// Makes one connection at a time.
  class Connector {
   public:
    virtual ~Connector() = default;
    /// Calls back once, with the connection, with kNotFound where there is no host of that name, or
    /// with kUnavailable and the system's reason; not after cancel().
    virtual void connect(const Address& address,
                         std::function<void(Outcome<std::unique_ptr<Stream>>)> then) = 0;
    virtual void cancel() = 0;
  };

  /// Ends the thread; callbacks that have not run never will.
  virtual ~IoLoop() = default;
  virtual void post(std::function<void()> callback) = 0;  // any thread
  virtual bool in_loop() const = 0;                       // any thread
  virtual void stop() = 0;                                // any thread but the loop's
  virtual std::unique_ptr<Alarm> make_alarm() = 0;
  /// Throws Error(kUnavailable) with the system's reason. Any thread.
  virtual std::unique_ptr<Acceptor> listen(const Address& address) = 0;
  virtual std::unique_ptr<Connector> make_connector() = 0;
};

/// Makes the loops of a simulated world.
class Network {
 public:
  virtual ~Network() = default;
  /// Null in the real world; see Platform.
  static Network* simulated() { return simulated_; }
  virtual std::unique_ptr<IoLoop> make_loop(const std::string& thread_name) = 0;
  /// Of the process that runs now: where others reach it.
  virtual std::string own_host() = 0;

 protected:
  static void set_simulated(Network* network) { simulated_ = network; }

 private:
  inline static Network* simulated_ = nullptr;
};

/// A loop of the real world.
std::unique_ptr<IoLoop> make_asio_loop(const std::string& thread_name, ThreadShare share);

/// The address of this machine that the route to `peer` starts from: others reach us there. Sends
/// nothing.
std::string own_host_towards(const Address& peer);

}  // namespace weft::actors
