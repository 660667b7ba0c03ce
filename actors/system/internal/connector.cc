#include "actors/system/internal/connector.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "actors/system/internal/dial_protection.h"

namespace weft::actors {

namespace {
constexpr auto kDialAgainAfter = std::chrono::milliseconds(50);
}  // namespace

/// State of one connect(). The calling thread constructs this and waits; the rest runs on the
/// loop's thread. Shared with pending callbacks.
class Connector::Attempt final : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Connector& connector, Address address, TimePoint deadline, ExpectedPeer wanted)
      : connector_(connector), address_(std::move(address)), deadline_(deadline), wanted_(wanted) {}

  void start() {
    dial(connector_.loop_, address_, deadline_, Retry::kUntilDeadline,
         {[self = shared_from_this()](std::shared_ptr<Connection> connection) {
            self->start_handshake(std::move(connection));
          },
          [self = shared_from_this()](const Error& error) { self->finish(error); }},
         dial_protection(connector_.options_, connector_.tls_, address_));
  }

  Outcome<ProcessRef> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return outcome_.has_value(); });
    return std::move(*outcome_);
  }
  /// Returns, after a failure, the process that connects to this one at the same time and whose
  /// connection stays; id 0: none.
  ProcessId concurrent_dialler() const { return dials_us_; }

 private:
  void start_handshake(std::shared_ptr<Connection> connection) {
    connector_.handshakes_.start(
        std::move(connection), Handshake::Side::kDialler,
        [self = shared_from_this()](Handshake& handshake, Handshake::Answer answer) {
          self->on_answer(handshake, std::move(answer));
        },
        wanted_);
  }

  void on_answer(Handshake& handshake, Handshake::Answer answer) {
    if (const auto* error = std::get_if<Error>(&answer)) return on_failed(*error);
    if (const auto* reject = std::get_if<Reject>(&answer)) {
      if (reject->authenticated && reject->duplicate) {
        dials_us_ = reject->process;
        if (wanted_.head) connector_.note_head(reject->process);
      }
      return finish(to_error(*reject));
    }
    on_peer(handshake, std::get<PeerDescription>(std::move(answer)));
  }

  void on_failed(const Error& error) {
    // The peer has too many unproven connections, or is ending or starting.
    if (error.code() == ErrorCode::kUnavailable &&
        SteadyClock().now() + kDialAgainAfter < deadline_) {
      connector_.timers_.run_after(kDialAgainAfter, [self = shared_from_this()] { self->start(); });
      return;
    }
    finish(Error(error.code(),
                 fmt::format("cannot talk to {}: {}", to_string(address_), error.message())));
  }

  void on_peer(Handshake& handshake, PeerDescription other) {
    if (const auto reject = find_incompatibility(connector_.identity_.introduction(), other))
      return finish(to_error(*reject));
    // If the peer listens on every address, others reach it as this process did.
    Address& listens_at = other.process.address;
    if (listens_at.port != 0 && (listens_at.host == "0.0.0.0" || listens_at.host == "::"))
      listens_at.host = address_.host;
    if (wanted_.head) connector_.note_head(other.process.id);
    const std::shared_ptr<Link> link = link_to(other);
    const ProcessRef peer = link->peer();
    if (!link->attached()) connector_.handshakes_.attach(link, handshake, std::move(other), true);
    finish(peer);
  }

  /// Returns the link to a process; makes a new one if there is none or its connection was lost.
  std::shared_ptr<Link> link_to(const PeerDescription& other) const {
    PeerLinks& links = connector_.links_;
    const auto link = links.find(other.process.id);
    if (link && link->ended())
      links.drop(link,
                 Error(ErrorCode::kPeerDied,
                       fmt::format("the connection to {} was lost and replaced", describe(other))),
                 DisconnectCause::kDisconnected);
    return links.find_or_add(other.process);
  }

  /// Sets the outcome, if there is none yet.
  void finish(Outcome<ProcessRef> outcome) {
    const std::lock_guard lock(mutex_);
    if (!outcome_) outcome_ = std::move(outcome);
    changed_.notify_all();
  }

  Connector& connector_;
  const Address address_;
  const TimePoint deadline_;
  const ExpectedPeer wanted_;
  ProcessId dials_us_;  // read by the calling thread after the outcome
  Mutex mutex_;         // guards outcome_
  Condition changed_;
  std::optional<Outcome<ProcessRef>> outcome_;
};

ProcessRef Connector::connect(const Address& address, Nanoseconds within, ExpectedPeer wanted) {
  const std::lock_guard one_at_a_time(connect_mutex_);
  if (auto connected = find_connected(address, wanted)) return *std::move(connected);
  const TimePoint deadline = SteadyClock().now() + within;
  const auto attempt = std::make_shared<Attempt>(*this, address, deadline, wanted);
  attempt->start();
  Outcome<ProcessRef> outcome = attempt->wait();
  if (outcome.ok() || attempt->concurrent_dialler() == ProcessId())
    return std::move(outcome).value();
  const auto link = links_.wait_attached(attempt->concurrent_dialler(), deadline);
  return link ? link->peer() : std::move(outcome).value();
}

std::optional<ProcessRef> Connector::find_connected(const Address& address,
                                                    ExpectedPeer wanted) const {
  ProcessId head;
  {
    const std::lock_guard lock(mutex_);
    head = head_;
  }
  for (const auto& link : links_.attached()) {
    const ProcessId id = link->peer_id();
    const bool is_wanted =
        (wanted.process == ProcessId() || wanted.process == id) && (!wanted.head || head == id);
    if (is_wanted && link->peer().address == address) return link->peer();
  }
  return std::nullopt;
}

void Connector::note_head(ProcessId process) {
  const std::lock_guard lock(mutex_);
  head_ = process;
}

}  // namespace weft::actors
