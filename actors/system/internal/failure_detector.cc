#include "actors/system/internal/failure_detector.h"

#include <fmt/format.h>

namespace weft::actors {

void FailureDetector::start() {
  if (options_.beat_interval > Nanoseconds::zero())
    timers_.run_every(options_.beat_interval, [this] { send_heartbeats(); });
}

void FailureDetector::on_ended(const std::shared_ptr<Link>& link, LinkEvents::EndCause how,
                               const Error& reason) {
  using EndCause = LinkEvents::EndCause;
  if (how == EndCause::kProtocolError && reason.code() == ErrorCode::kDataLoss)
    refusals_.warn(reason.message());
  if (how == EndCause::kExited) {
    links_.mark_dead(link->peer_id(), reason, false);
    return links_.drop(link, reason, DisconnectCause::kSaidGoodbye);
  }
  if (how != EndCause::kEof) return links_.drop(link, reason, DisconnectCause::kDisconnected);
  if (callbacks_.eof) callbacks_.eof(link->peer());
  // A dialler that gave up before Welcome closes, too, and tries again.
  const DisconnectCause loss =
      link->has_received() ? DisconnectCause::kEnded : DisconnectCause::kDisconnected;
  timers_.run_after(options_.eof_grace,
                    [this, link, reason, loss] { links_.drop(link, reason, loss); });
}

void FailureDetector::send_heartbeats() {
  for (const auto& link : links_.all()) check(link);
}

void FailureDetector::check(const std::shared_ptr<Link>& link) {
  if (!link->attached()) return;
  const Nanoseconds silent = link->send_heartbeat();
  const bool quiet = silent > options_.suspect_after;
  if (link->set_suspected(quiet) != quiet && callbacks_.suspected)
    callbacks_.suspected(link->peer(), quiet ? std::optional(silent) : std::nullopt);
  if (silent <= options_.dead_after) return;
  if (callbacks_.timed_out) callbacks_.timed_out(link->peer(), silent);
  const double seconds = in_seconds(silent);
  const std::string peer = describe(link->introduction());
  // The error of the silent peer's calls contains this, and must not seem to blame the other side.
  link->say_goodbye({fmt::format("no data received from {} for {:.1f} s", peer, seconds), true});
  links_.drop(
      link,
      Error(ErrorCode::kPeerDied,
            fmt::format("{} has been silent for {:.1f} s: it is stopped, overloaded, or cut off",
                        peer, seconds)),
      DisconnectCause::kDisconnected);
}

}  // namespace weft::actors
