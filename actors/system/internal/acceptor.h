#pragma once

#include <memory>

#include "actors/net/event_loop.h"
#include "actors/net/tls.h"
#include "actors/system/internal/cluster_token.h"
#include "actors/system/internal/handshakes.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/refusal_log.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Accepts or refuses the connections that other processes dial. Owned by the system; loop's
/// thread, except listen() and close().
class Acceptor final {
 public:
  Acceptor(const SystemOptions& options, EventLoop& loop, TlsPolicy& tls, ProcessIdentity& identity,
           PeerLinks& links, const ClusterToken& token, Handshakes& handshakes,
           RefusalLog& refusals)
      : options_(options),
        loop_(loop),
        tls_(tls),
        identity_(identity),
        links_(links),
        token_(token),
        handshakes_(handshakes),
        refusals_(refusals) {}

  /// See System::listen(). Not on the loop's thread, as close().
  Address listen(const Address& address);
  void close() { listener_.reset(); }

 private:
  /// Refusal of a connection. `is_logged`: a line of the log says so.
  struct ConnectionRefusal {
    Reject reject;
    bool is_logged = true;
  };
  void on_answer(Handshake& handshake, Handshake::Answer answer);
  void on_introduction(Handshake& handshake, PeerDescription other);
  /// Returns why this process must not accept a connection of `other`, if there is a reason.
  std::optional<ConnectionRefusal> find_refusal(const PeerDescription& me,
                                                const PeerDescription& other,
                                                const Secret& proven) const;
  /// Decides about a link to `other` that exists already. Drops it if its connection is lost or
  /// outdated. Returns the refusal of the new connection if the present one stays.
  std::optional<ConnectionRefusal> replace_link(const PeerDescription& me,
                                                const PeerDescription& other);
  void refuse(Handshake& handshake, const ConnectionRefusal& refusal);

  const SystemOptions& options_;
  EventLoop& loop_;
  TlsPolicy& tls_;
  ProcessIdentity& identity_;
  PeerLinks& links_;
  const ClusterToken& token_;
  Handshakes& handshakes_;
  RefusalLog& refusals_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace weft::actors
