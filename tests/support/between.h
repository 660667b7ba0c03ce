#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/net/event_loop.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"

namespace weft::test {

/// Relay between two processes, over plain sockets or its own TLS on both sides. Forwards bytes in
/// both directions. Tests can modify the bytes.
class Between final {
 public:
  enum class Kind { kListens, kHasTls };
  /// Side that sends bytes.
  enum class From { kDialler, kAcceptor };
  /// Modifies the bytes of one read in one direction. `back` is sent to their sender.
  using Change = std::function<void(std::string& bytes, std::string& back)>;

  Between(Kind kind, actors::Address target) : kind_(kind), target_(std::move(target)) {
    loop_.run_and_wait([this] {
      acceptor_ = loop_.io().listen({"127.0.0.1", 0}, actors::IoLoop::OnLoopback::kTcp);
      connector_ = loop_.io().make_connector(actors::IoLoop::OnLoopback::kTcp);
      accept();
    });
  }
  ~Between() { loop_.stop(); }
  actors::Address address() const { return acceptor_->address(); }

  /// Return the bytes that the dialling or accepting side has sent on all connections.
  std::string dialler_said() { return said(From::kDialler); }
  std::string acceptor_said() { return said(From::kAcceptor); }
  /// Modifies all later bytes of a side, on all connections.
  void change(From from, Change change) {
    loop_.run_and_wait([&] { changes_[index(from)] = std::move(change); });
  }
  std::size_t connections() {
    std::size_t count = 0;
    loop_.run_and_wait([&] { count = streams_.size() / 2; });
    return count;
  }

 private:
  using ByteStream = actors::ByteStream;
  static std::size_t index(From from) { return from == From::kDialler ? 0 : 1; }

  /// Relay of one direction.
  class Pipe final {
   public:
    Pipe(Between& between, From from, ByteStream& source, ByteStream& target)
        : between_(between), from_(from), source_(source), target_(target) {}
    void go() {
      source_.read_some(buffer_, [this](std::size_t count, const std::optional<Error>& error) {
        if (error) return target_.shut_down();
        bytes_.assign(reinterpret_cast<const char*>(buffer_.data()), count);
        between_.said_[index(from_)] += bytes_;
        std::string back;
        if (const Change& change = between_.changes_[index(from_)]) change(bytes_, back);
        // A few bytes always fit into the socket's buffer.
        if (!back.empty()) (void)source_.write_some(std::as_bytes(std::span(back)));
        send(std::as_bytes(std::span(bytes_)));
      });
    }

   private:
    void send(std::span<const std::byte> bytes) {
      const auto taken = target_.write_some(bytes);
      if (!taken) return source_.shut_down();
      if (*taken == bytes.size()) return go();
      target_.wait_for_room([this, rest = bytes.subspan(*taken)](bool there) {
        if (there) send(rest);
      });
    }

    Between& between_;
    const From from_;
    ByteStream& source_;
    ByteStream& target_;
    std::string bytes_;
    std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 16);
  };

  void accept() {
    acceptor_->accept([this](Outcome<std::unique_ptr<ByteStream>> stream) {
      if (!stream.ok()) return;
      std::unique_ptr<ByteStream> accepted = std::move(stream).value();
      if (kind_ == Kind::kHasTls) accepted = tls_.wrap_accepted(std::move(accepted));
      waiting_ = std::move(accepted);
      connector_->connect(target_, [this](Outcome<std::unique_ptr<ByteStream>> other) {
        if (other.ok()) {
          std::unique_ptr<ByteStream> dialled = std::move(other).value();
          if (kind_ == Kind::kHasTls) dialled = tls_.wrap_dialled(std::move(dialled), "");
          ByteStream& near = *streams_.emplace_back(std::move(waiting_));
          ByteStream& far = *streams_.emplace_back(std::move(dialled));
          pipes_.emplace_back(*this, From::kDialler, near, far).go();
          pipes_.emplace_back(*this, From::kAcceptor, far, near).go();
        }
        accept();
      });
    });
  }

  std::string said(From from) {
    std::string said;
    loop_.run_and_wait([&] { said = said_[index(from)]; });
    return said;
  }

  actors::EventLoop loop_{"between"};
  const Kind kind_;
  actors::TlsPolicy tls_{actors::TlsMode::kAlways};
  const actors::Address target_;
  std::array<std::string, 2> said_;
  std::array<Change, 2> changes_;
  std::unique_ptr<ByteStream> waiting_;
  std::deque<std::unique_ptr<ByteStream>> streams_;
  std::deque<Pipe> pipes_;
  std::unique_ptr<actors::IoLoop::StreamAcceptor> acceptor_;
  std::unique_ptr<actors::IoLoop::StreamConnector> connector_;
};

}  // namespace weft::test
