#pragma once

#include <cstdint>

namespace weft {

/// The floor: 64-byte messages over a TCP connection on loopback, without any framework.
inline constexpr int kMessageBytes = 64;

/// What stands between the socket and the code that uses a message.
enum class HandOver {
  kNone,  ///< One thread reads and answers.
  /// A thread reads and hands over to another, which answers: on both sides, as an actor system
  /// does.
  kThreads,
};

/// A socket that listens on loopback, and its port.
struct Listening {
  int socket;
  std::uint16_t port;
};
Listening listen_on_loopback();

/// Answers every message of one connection; returns at its end.
void serve_raw(int listening_socket, HandOver hand_over);

/// The client's end of one connection. One thread.
class RawClient final {
 public:
  RawClient(std::uint16_t port, HandOver hand_over);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  /// Sends a message and waits for the answer.
  void round_trip();

 private:
  struct Reader;
  int socket_;
  Reader* reader_ = nullptr;
};

}  // namespace weft
