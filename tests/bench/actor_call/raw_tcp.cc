#include "tests/bench/actor_call/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/check.h"

namespace weft {

namespace {

using Message = std::array<char, kMessageBytes>;

bool read_all(int socket, std::span<char> bytes) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count = ::recv(socket, bytes.data() + have, bytes.size() - have, 0);
    if (count <= 0) return false;
    have += count;
  }
  return true;
}

bool read_message(int socket, Message& message) { return read_all(socket, message); }

void write_all(int socket, std::span<const char> bytes) {
  WEFT_CHECK(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes));
}

void write_message(int socket, const Message& message) { write_all(socket, message); }

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Hand-over of one message at a time between two threads.
class Slot final {
 public:
  void put(const Message& message) {
    {
      const std::lock_guard lock(mutex_);
      message_ = message;
      full_ = true;
    }
    changed_.notify_one();
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
  }
  bool take(Message& message) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return full_ || ended_; });
    if (!full_) return false;
    message = message_;
    full_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Message message_{};
  bool full_ = false;
  bool ended_ = false;
};

/// Adds the next reply to `sum`.
void add_reply(RawClient& client, std::span<float> sum) {
  std::vector<float> part(sum.size());
  client.receive({reinterpret_cast<char*>(part.data()), sum.size_bytes()});
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

}  // namespace

Listening listen_on_loopback() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  WEFT_CHECK(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  WEFT_CHECK(::listen(socket, 4) == 0);
  const timeval within{20, 0};  // limits accept(): a client may have failed
  WEFT_CHECK(::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof(within)) == 0);
  socklen_t size = sizeof(address);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return {socket, ntohs(address.sin_port)};
}

void serve_raw(int listening_socket, HandOver hand_over) {
  const int socket = ::accept(listening_socket, nullptr, nullptr);
  WEFT_CHECK(socket >= 0);
  no_delay(socket);
  Message message;
  if (hand_over == HandOver::kNone) {
    while (read_message(socket, message)) write_message(socket, message);
  } else {
    Slot slot;
    std::jthread worker([&] {
      Message taken;
      while (slot.take(taken)) write_message(socket, taken);
    });
    while (read_message(socket, message)) slot.put(message);
    slot.end();
  }
  ::close(socket);
}

void serve_raw_stream(int listening_socket) {
  const int socket = ::accept(listening_socket, nullptr, nullptr);
  WEFT_CHECK(socket >= 0);
  no_delay(socket);
  std::vector<char> bytes(64 << 10);
  for (ssize_t count; (count = ::recv(socket, bytes.data(), bytes.size(), 0)) > 0;)
    write_all(socket, std::span(bytes).first(count));
  ::close(socket);
}

void serve_raw_relay(int listening_socket, std::span<const RawBranch> branches,
                     const RawSizes& sizes) {
  const int socket = ::accept(listening_socket, nullptr, nullptr);
  WEFT_CHECK(socket >= 0);
  no_delay(socket);
  int processes = 1;
  for (const RawBranch& branch : branches) processes += branch.processes;
  std::vector<char> request(sizes.request);
  std::vector<char> replies(static_cast<std::size_t>(sizes.sums ? 1 : processes) * sizes.reply);
  while (read_all(socket, request)) {
    for (const RawBranch& branch : branches) branch.client.send(request);
    if (sizes.sums) {
      std::vector<float> sum(sizes.reply / sizeof(float), 1.0F);
      for (const RawBranch& branch : branches) add_reply(branch.client, sum);
      std::memcpy(replies.data(), sum.data(), replies.size());
    } else {
      std::span<char> rest = std::span(replies).subspan(sizes.reply);
      for (const RawBranch& branch : branches) {
        const std::size_t size = static_cast<std::size_t>(branch.processes) * sizes.reply;
        branch.client.receive(rest.first(size));
        rest = rest.subspan(size);
      }
    }
    write_all(socket, replies);
  }
  ::close(socket);
}

struct RawClient::Reader {
  Slot slot;
  std::thread thread;
};

RawClient::RawClient(std::uint16_t port, HandOver hand_over)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const sockaddr_in address = loopback(port);
  WEFT_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  no_delay(socket_);
  if (hand_over == HandOver::kNone) return;
  reader_ = new Reader;
  reader_->thread = std::thread([this] {
    Message message;
    while (read_message(socket_, message)) reader_->slot.put(message);
  });
}

RawClient::~RawClient() {
  ::shutdown(socket_, SHUT_RDWR);
  if (reader_) {
    reader_->thread.join();
    delete reader_;
  }
  ::close(socket_);
}

void RawClient::round_trip() {
  Message message{};
  write_message(socket_, message);
  WEFT_CHECK(reader_ ? reader_->slot.take(message) : read_message(socket_, message));
}

void RawClient::send(int count) {
  send(std::vector<char>(static_cast<std::size_t>(count) * kMessageBytes));
}

void RawClient::receive(int count) {
  std::vector<char> replies(static_cast<std::size_t>(count) * kMessageBytes);
  receive(replies);
}

void RawClient::send(std::span<const char> bytes) { write_all(socket_, bytes); }

void RawClient::receive(std::span<char> bytes) { WEFT_CHECK(read_all(socket_, bytes)); }

}  // namespace weft
