#include "actors/net/tls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/thread.h"

namespace weft::actors {
namespace {

/// First byte of a TLS record: a handshake, an alert.
constexpr std::byte kTlsHandshake{0x16};
constexpr std::byte kTlsAlert{0x15};
/// Fatal alert protocol_version: tells a TLS peer that this process does not use TLS.
constexpr std::array<std::byte, 7> kNoTls = {kTlsAlert,    std::byte{3}, std::byte{3}, std::byte{0},
                                             std::byte{2}, std::byte{2}, std::byte{70}};
constexpr std::size_t kSealAtOnce = 64u << 10;

/// Stream that may speak TLS, over a plain one.
///
///   accepted: kUnknown --first byte--> kPlain | kHandshake --> kOpen
///   dialled:                                    kHandshake --> kOpen       (kProtocolError from
///   each)
///
/// Until kOpen only the loop's thread writes; from then on any thread, one at a time. Encryption
/// needs the lock, sending does not, so that a read never waits for a writer's system call.
class TlsStream final : public ByteStream {
 public:
  using Then = std::function<void(std::size_t, const std::optional<Error>&)>;
  TlsStream(std::unique_ptr<ByteStream> inner, TlsPolicy& tls, std::unique_ptr<TlsSession> session)
      : inner_(std::move(inner)),
        peer_(inner_->peer_address()),
        tls_(tls),
        session_(std::move(session)) {
    if (session_) {
      dials_ = true;
      state_ = State::kHandshake;
    }
  }

  Address peer_address() const override { return peer_; }
  bool is_private() const override { return inner_->is_private(); }
  std::span<const std::byte> channel_binding() const override { return binding_; }
  bool violates_tls_policy() const override { return plain_by_mistake_; }

  void read_some(std::span<std::byte> into, Then then) override {
    if (state_ == State::kPlain) return inner_->read_some(into, std::move(then));
    if (state_ != State::kUnknown) return pump(into, std::move(then));
    inner_->read_some(into, [this, into, then = std::move(then)](
                                std::size_t count, const std::optional<Error>& error) {
      if (error) return fail(*error, then);
      detect_protocol(into, count, then);
    });
  }

  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    switch (state_.load(std::memory_order_acquire)) {
      case State::kPlain: return inner_->write_some(bytes);
      case State::kOpen: return seal_and_send(bytes);
      case State::kProtocolError: return std::nullopt;
      default: return 0;
    }
  }

  void wait_for_room(std::function<void(bool)> then) override {
    switch (state_.load(std::memory_order_acquire)) {
      case State::kPlain:
      case State::kOpen: return inner_->wait_for_room(std::move(then));
      case State::kProtocolError: return then(false);
      default: waits_for_room_ = std::move(then);
    }
  }

  void shut_down() override { inner_->shut_down(); }

  bool abort_handshake() override {
    if (state_ != State::kUnknown && state_ != State::kHandshake) return false;
    inner_->shut_down();
    enter(State::kProtocolError);
    return true;
  }

 private:
  enum class State : std::uint8_t { kUnknown, kPlain, kHandshake, kOpen, kProtocolError };

  /// Changes the state and tells a waiting writer whether it can write.
  void enter(State state) {
    state_.store(state, std::memory_order_release);
    if (const auto tell = std::exchange(waits_for_room_, nullptr))
      tell(state != State::kProtocolError);
  }

  /// Reports the error. `then` may own the last reference to this: touches nothing after it.
  void fail(const Error& error, const Then& then) {
    enter(State::kProtocolError);
    then(0, error);
  }

  void detect_protocol(std::span<std::byte> into, std::size_t count, const Then& then) {
    if (into[0] != kTlsHandshake) {
      plain_by_mistake_ = TlsPolicy::tls_required(tls_.mode(), peer_.host);
      enter(State::kPlain);
      return then(count, std::nullopt);
    }
    if (tls_.mode() == TlsMode::kNever) {
      inner_->write_some(kNoTls);
      return fail(Error(ErrorCode::kFailedPrecondition,
                        "the peer uses TLS, but this process runs with --insecure: use --insecure "
                        "for both or for neither"),
                  then);
    }
    try {
      session_ = tls_.context().accept();
    } catch (const Error& error) {
      inner_->write_some(kNoTls);
      return fail(error, then);
    }
    enter(State::kHandshake);
    // The bytes read so far belong to the session.
    for (std::span<const std::byte> rest = into.first(count); !rest.empty();) {
      const std::span<std::byte> buffer = session_->receive_buffer();
      const std::size_t part = std::min(buffer.size(), rest.size());
      std::copy_n(rest.begin(), part, buffer.begin());
      session_->commit_received(part);
      rest = rest.subspan(part);
      if (part == 0)
        return fail(Error(ErrorCode::kDataLoss, "the peer's first TLS message is too long"), then);
    }
    pump(into, then);
  }

  /// Bytes read from the session, after which `failure` may follow. `opened`: the handshake ended.
  struct Reading {
    std::size_t count = 0;
    std::optional<Error> failure;
    bool opened = false;
  };
  /// Continues the handshake, and reads the available bytes.
  Reading read_session(std::span<std::byte> into) {
    Reading reading;
    const std::lock_guard lock(mutex_);
    try {
      if (state_ == State::kHandshake && session_->handshake()) {
        const auto binding = session_->channel_binding();
        binding_.assign(binding.begin(), binding.end());
        reading.opened = true;
      }
      if (state_ != State::kOpen && !reading.opened) return reading;
      while (reading.count < into.size()) {
        const std::size_t more = session_->read(into.subspan(reading.count));
        if (more == 0) break;
        reading.count += more;
      }
    } catch (const Error& error) {
      reading.failure = error;
    }
    return reading;
  }

  /// Delivers available bytes, or waits for more.
  void pump(std::span<std::byte> into, Then then) {
    Reading reading = read_session(into);
    if (state_ == State::kHandshake && !send_handshake() && !reading.failure)
      reading.failure = Error(ErrorCode::kUnavailable, "connection closed by the other side");
    if (reading.opened && (!reading.failure || reading.count > 0)) enter(State::kOpen);
    // Errors are final: the next read meets it.
    if (reading.count > 0) return then(reading.count, std::nullopt);
    if (reading.failure) return fail(with_handshake_hint(*reading.failure), then);
    inner_->read_some(
        session_->receive_buffer(),
        [this, into, then = std::move(then)](std::size_t more, const std::optional<Error>& error) {
          if (error) return fail(with_handshake_hint(*error), then);
          received(more, into, then);
        });
  }

  /// Hands bytes in the session's receive buffer to the session.
  void received(std::size_t count, std::span<std::byte> into, const Then& then) {
    if (dials_ && !heard_ && session_->receive_buffer()[0] != kTlsHandshake &&
        session_->receive_buffer()[0] != kTlsAlert)
      return fail(Error(ErrorCode::kFailedPrecondition,
                        fmt::format("the peer does not use TLS; {}", kNoTlsHint)),
                  then);
    heard_ = true;
    {
      const std::lock_guard lock(mutex_);
      session_->commit_received(count);
    }
    pump(into, then);
  }

  /// Sends this side's part of the handshake, which fits into a socket's buffer.
  bool send_handshake() {
    std::vector<std::byte> said;
    {
      const std::lock_guard lock(mutex_);
      session_->take_output(said);
    }
    return said.empty() || inner_->write_some(said) == said.size();
  }

  Error with_handshake_hint(const Error& error) const {
    if (state_ == State::kOpen || !dials_ || error.code() != ErrorCode::kUnavailable) return error;
    return Error(error.code(), error.message() +
                                   " during the TLS handshake; if the peer's Weft has no TLS, "
                                   "install the same version on both hosts");
  }

  std::optional<std::size_t> seal_and_send(std::span<const std::byte> bytes) {
    std::size_t taken = 0;
    while (true) {
      if (sent_ < sending_.size()) {
        const auto more = inner_->write_some(std::span(sending_).subspan(sent_));
        if (!more) return std::nullopt;
        // A batch counts as taken once all of it has left. Until then the caller repeats its bytes.
        if (*more == 0) return taken;
        sent_ += *more;
        continue;
      }
      taken += std::exchange(sealed_, 0);
      sending_.clear();
      sent_ = 0;
      if (taken == bytes.size()) return taken;
      const auto part = bytes.subspan(taken).first(std::min(kSealAtOnce, bytes.size() - taken));
      const std::lock_guard lock(mutex_);
      try {
        session_->write(part);
      } catch (const Error&) {
        return std::nullopt;
      }
      session_->take_output(sending_);
      sealed_ = part.size();
    }
  }

  const std::unique_ptr<ByteStream> inner_;
  const Address peer_;  // kept, as a closed socket does not report it
  TlsPolicy& tls_;
  bool dials_ = false;
  std::atomic<State> state_ = State::kUnknown;  // changed on the loop's thread

  // Loop's thread only.
  bool heard_ = false;
  bool plain_by_mistake_ = false;
  std::function<void(bool)> waits_for_room_;  // used before kOpen
  std::vector<std::byte> binding_;

  Mutex mutex_;                          // guards session_, except its receive_buffer()
  std::unique_ptr<TlsSession> session_;  // set once

  // Used by the writing thread.
  std::vector<std::byte> sending_;  // encrypted
  std::size_t sent_ = 0;            // bytes of sending_ that have left
  std::size_t sealed_ = 0;          // plaintext bytes in sending_
};

}  // namespace

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1" ||
         host.starts_with("::ffff:127.");
}

bool TlsPolicy::tls_required(TlsMode mode, const std::string& host) {
  if (ControlNetwork::simulated() != nullptr) return false;
  return mode == TlsMode::kAlways || (mode == TlsMode::kBeyondLoopback && !is_loopback(host));
}

TlsContext& TlsPolicy::context() {
  if (!context_) {
    if (identity_.empty()) identity_ = tls_library().make_identity();
    context_ = tls_library().make_context(identity_);
  }
  return *context_;
}

std::unique_ptr<ByteStream> TlsPolicy::wrap_accepted(std::unique_ptr<ByteStream> stream) {
  if (ControlNetwork::simulated() != nullptr) return stream;
  return std::make_unique<TlsStream>(std::move(stream), *this, nullptr);
}

std::unique_ptr<ByteStream> TlsPolicy::wrap_dialled(std::unique_ptr<ByteStream> stream,
                                                    const std::string& certificate) {
  if (ControlNetwork::simulated() != nullptr) return stream;
  if (mode_ == TlsMode::kNever && !certificate.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "--cert requires TLS to {}, and --insecure disables TLS: leave one of them out",
                to_string(stream->peer_address()));
  if (certificate.empty() && !tls_required(mode_, stream->peer_address().host)) return stream;
  return std::make_unique<TlsStream>(std::move(stream), *this, context().dial(certificate));
}

}  // namespace weft::actors
