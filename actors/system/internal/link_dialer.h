#pragma once

#include <memory>

#include "actors/net/event_loop.h"
#include "actors/net/tls.h"
#include "actors/system/internal/handshakes.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Dials the processes to which this process has calls and no connection. Has no state of its own:
/// each dial belongs to a link of PeerLinks. Loop's thread, unless a member's comment says
/// otherwise.
class LinkDialer final {
 public:
  LinkDialer(const SystemOptions& options, EventLoop& loop, LoopTimers& timers, TlsPolicy& tls,
             const ProcessIdentity& identity, PeerLinks& links, Handshakes& handshakes)
      : options_(options),
        loop_(loop),
        timers_(timers),
        tls_(tls),
        identity_(identity),
        links_(links),
        handshakes_(handshakes) {}

  /// Returns the link to another process. Dials it if there is none. Throws the reason of its
  /// death, or Error(kUnavailable) if it does not listen. Any thread.
  std::shared_ptr<Link> link_to(const ProcessRef& process);

 private:
  enum class AttemptNumber { kFirst, kAgain };
  /// Dial to the peer of a link.
  struct Dial {
    std::shared_ptr<Link> link;
    TimePoint deadline;
    AttemptNumber attempt;
    TimePoint handshake_began = {};
  };
  void dial_peer(const std::shared_ptr<Link>& link, AttemptNumber attempt);
  void on_connected(Dial dial, std::shared_ptr<Connection> connection);
  void on_answer(const Dial& dial, Handshake& handshake, Handshake::Answer answer);
  void on_accepted(const std::shared_ptr<Link>& link, Handshake& handshake, PeerDescription other);
  void on_rejected(const Dial& dial, const Reject& reject);
  void on_failed(const Dial& dial, const Error& error);
  void drop_unreachable(const std::shared_ptr<Link>& link, ErrorCode code, const Error& error);

  const SystemOptions& options_;
  EventLoop& loop_;
  LoopTimers& timers_;
  TlsPolicy& tls_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  Handshakes& handshakes_;
};

}  // namespace weft::actors
