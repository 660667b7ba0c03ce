#pragma once

#include <functional>
#include <map>
#include <memory>

#include "actors/link/handshake.h"
#include "actors/net/event_loop.h"
#include "actors/system/internal/cluster_token.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/refusal_log.h"

namespace weft::actors {

/// Handshakes in progress, of connections in both directions. Loop's thread only, but clear() also
/// after the loop has stopped.
class Handshakes final {
 public:
  /// Called at the end of a handshake.
  using Done = std::function<void(Handshake&, Handshake::Answer)>;
  Handshakes(EventLoop& loop, const Log& log, const ProcessIdentity& identity, PeerLinks& links,
             ClusterToken& token, RefusalLog& refusals)
      : loop_(loop),
        log_(log),
        identity_(identity),
        links_(links),
        token_(token),
        refusals_(refusals) {}

  /// Starts a handshake. Processes other than `wanted` refuse it. Too many incoming handshakes
  /// close the oldest one.
  void start(std::shared_ptr<Connection> connection, Handshake::Side side, Done done,
             ExpectedPeer wanted = {});
  /// Hands the connection of a finished handshake to a link.
  void attach(const std::shared_ptr<Link>& link, Handshake& handshake, PeerDescription other,
              bool dialled_here);
  /// Closes the connections of all handshakes.
  void clear();

 private:
  EventLoop& loop_;
  const Log& log_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  ClusterToken& token_;
  RefusalLog& refusals_;
  // Handshakes in the order in which they began. Shared with the loop, which drops one after its
  // last callback.
  std::map<std::uint64_t, std::shared_ptr<Handshake>> incoming_;
  std::map<std::uint64_t, std::shared_ptr<Handshake>> outgoing_;
  std::uint64_t next_ = 0;
};

}  // namespace weft::actors
