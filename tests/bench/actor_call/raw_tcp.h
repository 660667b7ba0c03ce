#pragma once

#include <cstdint>
#include <span>

namespace weft {

/// Baseline: 64-byte messages over a TCP connection on loopback, without a framework.
inline constexpr int kMessageBytes = 64;

/// Threads between the socket and the code that uses a message.
enum class HandOver {
  kNone,  ///< The reading thread replies.
  /// The reading thread hands each message to another thread, which replies. Both sides do so, as
  /// in an actor system.
  kThreads,
};

/// Socket that listens on loopback, and its port.
struct Listening {
  int socket;
  std::uint16_t port;
};
Listening listen_on_loopback();

/// Replies to every message of one connection. Returns at its end.
void serve_raw(int listening_socket, HandOver hand_over);
/// Sends the bytes of one connection back, as many at a time as have arrived. Returns at its end.
void serve_raw_stream(int listening_socket);

class RawClient;
/// Connection to a server that answers a message with those of several processes.
struct RawBranch {
  RawClient& client;
  int processes = 1;
};
/// Sizes of the messages of a tree, in bytes.
struct RawSizes {
  int request = kMessageBytes;
  int reply = kMessageBytes;
  /// A relay adds the replies of its branches, as numbers of 4 bytes, to its own and sends one
  /// reply.
  bool sums = false;
};
/// Sends every message of one connection on to all branches. Replies with a message of its own and
/// with those of the branches, in one piece. Returns at the end of the connection.
void serve_raw_relay(int listening_socket, std::span<const RawBranch> branches,
                     const RawSizes& sizes);

/// Client's end of one connection. One thread.
class RawClient final {
 public:
  RawClient(std::uint16_t port, HandOver hand_over);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  /// Sends a message and waits for the reply.
  void round_trip();
  /// Sends `count` messages in one piece. The client must have HandOver::kNone.
  void send(int count);
  /// Waits for `count` replies. The client must have HandOver::kNone.
  void receive(int count);
  /// Sends a message of any size. The client must have HandOver::kNone.
  void send(std::span<const char> bytes);
  /// Fills `bytes` with what arrives. The client must have HandOver::kNone.
  void receive(std::span<char> bytes);

 private:
  struct Reader;
  int socket_;
  Reader* reader_ = nullptr;
};

}  // namespace weft
