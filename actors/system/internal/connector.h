#pragma once

#include "actors/net/event_loop.h"
#include "actors/net/tls.h"
#include "actors/system/internal/handshakes.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Connects to addresses whose process is unknown: System::connect(). Any thread but the loop's.
class Connector final {
 public:
  Connector(const SystemOptions& options, EventLoop& loop, LoopTimers& timers, TlsPolicy& tls,
            const ProcessIdentity& identity, PeerLinks& links, Handshakes& handshakes)
      : options_(options),
        loop_(loop),
        timers_(timers),
        tls_(tls),
        identity_(identity),
        links_(links),
        handshakes_(handshakes) {}

  /// See System::connect().
  ProcessRef connect(const Address& address, Nanoseconds within, ExpectedPeer wanted);

 private:
  class Attempt;
  /// Returns the connected process at that address, if it is the wanted one.
  std::optional<ProcessRef> find_connected(const Address& address, ExpectedPeer wanted) const;
  void note_head(ProcessId process);

  const SystemOptions& options_;
  EventLoop& loop_;
  LoopTimers& timers_;
  TlsPolicy& tls_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  Handshakes& handshakes_;

  Mutex connect_mutex_;  // serialises connect()
  mutable Mutex mutex_;  // guards head_
  ProcessId head_;       // last process that accepted a connection for the cluster's head; 0: none
};

}  // namespace weft::actors
