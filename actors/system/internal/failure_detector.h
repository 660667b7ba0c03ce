#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/link/link.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/refusal_log.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Decides from heartbeats, goodbyes and closed connections which peers are lost, and drops their
/// links. Loop's thread only.
class FailureDetector final {
 public:
  /// Callbacks of the system's user; null: none. See System.
  struct Callbacks {
    std::function<void(const ProcessRef&)> eof;
    std::function<void(const ProcessRef&, Nanoseconds)> timed_out;
    std::function<void(const ProcessRef&, std::optional<Nanoseconds>)> suspected;
  };
  FailureDetector(const SystemOptions& options, LoopTimers& timers, PeerLinks& links,
                  RefusalLog& refusals)
      : options_(options), timers_(timers), links_(links), refusals_(refusals) {}

  Callbacks& callbacks() { return callbacks_; }
  /// Begins to send heartbeats and to measure silence. Any thread.
  void start();
  /// Handles the end of a connection: LinkEvents::on_ended(). A connection that ended without a
  /// goodbye is dropped after SystemOptions::eof_grace.
  void on_ended(const std::shared_ptr<Link>& link, LinkEvents::EndCause how, const Error& reason);

 private:
  void send_heartbeats();
  /// Sends a heartbeat, and drops the link if its peer has been silent for too long.
  void check(const std::shared_ptr<Link>& link);

  const SystemOptions& options_;
  LoopTimers& timers_;
  PeerLinks& links_;
  RefusalLog& refusals_;
  Callbacks callbacks_;
};

}  // namespace weft::actors
