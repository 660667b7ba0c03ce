#include "actors/system/internal/link_dialer.h"

#include <fmt/format.h>

#include <utility>

#include "actors/system/internal/dial_protection.h"

namespace weft::actors {

namespace {
/// Delay of a timer that shows that this process did not run.
constexpr auto kLateTimer = std::chrono::milliseconds(200);
}  // namespace

std::shared_ptr<Link> LinkDialer::link_to(const ProcessRef& process) {
  auto link = links_.find_or_add_reachable(process);
  if (link->claim_dial()) loop_.post([this, link] { dial_peer(link, AttemptNumber::kFirst); });
  return link;
}

void LinkDialer::dial_peer(const std::shared_ptr<Link>& link, AttemptNumber attempt) {
  if (link->attached() || !links_.contains(link)) return;  // the other side connected first
  const Address& address = link->peer().address;
  const Dial to{link, SteadyClock().now() + options_.connect_within, attempt};
  links_.begin_dial(link->peer_id(), dial(loop_, address, to.deadline, Retry::kNever,
                                          {[this, to](std::shared_ptr<Connection> connection) {
                                             links_.end_dial(to.link->peer_id());
                                             on_connected(to, std::move(connection));
                                           },
                                           [this, link](const Error& error) {
                                             links_.end_dial(link->peer_id());
                                             if (!link->attached())
                                               drop_unreachable(link, error.code(), error);
                                           }},
                                          dial_protection(options_, tls_, address)));
}

void LinkDialer::on_connected(Dial dial, std::shared_ptr<Connection> connection) {
  // The other side connected first, or this process ends.
  if (dial.link->attached() || !links_.contains(dial.link)) return;
  const ExpectedPeer wanted{false, dial.link->peer_id()};
  dial.handshake_began = SteadyClock().now();
  handshakes_.start(
      std::move(connection), Handshake::Side::kDialler,
      [this, dial = std::move(dial)](Handshake& handshake, Handshake::Answer answer) {
        on_answer(dial, handshake, std::move(answer));
      },
      wanted);
}

void LinkDialer::on_answer(const Dial& dial, Handshake& handshake, Handshake::Answer answer) {
  // A link that was lost meanwhile stays lost.
  if (dial.link->attached() || !links_.contains(dial.link)) return;
  if (auto* other = std::get_if<PeerDescription>(&answer))
    return on_accepted(dial.link, handshake, std::move(*other));
  if (const auto* reject = std::get_if<Reject>(&answer)) return on_rejected(dial, *reject);
  on_failed(dial, std::get<Error>(answer));
}

void LinkDialer::on_accepted(const std::shared_ptr<Link>& link, Handshake& handshake,
                             PeerDescription other) {
  if (other.process.id != link->peer_id())
    return links_.drop(link,
                       Error(ErrorCode::kPeerDied,
                             fmt::format("{} has exited: {} now listens at {}", link->peer().name,
                                         describe(other), to_string(link->peer().address))));
  if (const auto reject = find_incompatibility(identity_.introduction(), other))
    return links_.drop(link, to_error(*reject));
  handshakes_.attach(link, handshake, std::move(other), true);
}

void LinkDialer::on_rejected(const Dial& dial, const Reject& reject) {
  const auto& link = dial.link;
  if (!reject.authenticated || !reject.duplicate) return links_.drop(link, to_error(reject));
  // The peer's own connection is under way and replaces this one.
  timers_.run_after(dial.deadline - SteadyClock().now(), [this, link] {
    if (!link->attached())
      links_.drop(link, Error(ErrorCode::kUnavailable,
                              fmt::format("{} did not connect in time", link->peer().name)));
  });
}

void LinkDialer::on_failed(const Dial& dial, const Error& error) {
  // This process was stopped, and the other one has timed out.
  if (dial.attempt == AttemptNumber::kFirst &&
      SteadyClock().now() - dial.handshake_began > Handshake::kTimeLimit + kLateTimer)
    return dial_peer(dial.link, AttemptNumber::kAgain);
  drop_unreachable(dial.link, ErrorCode::kUnavailable, error);
}

void LinkDialer::drop_unreachable(const std::shared_ptr<Link>& link, ErrorCode code,
                                  const Error& error) {
  links_.drop(link,
              Error(code, fmt::format("cannot reach {}: {}", link->peer().name, error.message())));
}

}  // namespace weft::actors
