#pragma once

#include <functional>
#include <map>
#include <memory>
#include <typeindex>
#include <vector>

#include "actors/link/link.h"
#include "actors/net/tls.h"
#include "actors/system/internal/acceptor.h"
#include "actors/system/internal/actor_threads.h"
#include "actors/system/internal/branches.h"
#include "actors/system/internal/cluster_token.h"
#include "actors/system/internal/connector.h"
#include "actors/system/internal/failure_detector.h"
#include "actors/system/internal/handshakes.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/incoming_calls.h"
#include "actors/system/internal/link_dialer.h"
#include "actors/system/internal/local_route.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/refusal_log.h"
#include "actors/system/internal/relay.h"
#include "actors/system/internal/relocations.h"
#include "actors/system/internal/surveys.h"
#include "actors/system/internal/tree_calls.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Parts of a System, and the events that pass from its links to them. Each part uses only parts
/// declared above it:
///
///   PeerLinks <- ClusterToken <- Handshakes <- LinkDialer, Connector, Acceptor
///       ^                                          ^
///       |-- FailureDetector         OutgoingCalls -'-> HostedActors
///                                        ^
///   IncomingCalls -> Surveys ------------|
///        '--------> Relay -> Branches ---|
///                   TreeCalls --^--------'
///
/// OutgoingCalls, TreeCalls and IncomingCalls also use Relocations. OutgoingCalls asks TreeCalls
/// about calls that have ended.
/// LocalRoute, through which OutgoingCalls reaches this process, is the exception: it leads to
/// IncomingCalls. All parts use `loop`. No part calls another while it holds its own mutex, except
/// Connector, whose mutex only makes callers wait for each other, and HostedActors, which reads
/// ProcessIdentity.
struct System::Impl final : public LinkEvents {
  Impl(System& system, SystemOptions system_options);
  ~Impl();

  void shut_down();

  void on_call(Link& link, Call call) override;
  void on_reply(Link& link, Reply reply) override;
  void on_cancel(Link& link, std::uint64_t call_id) override;
  void on_values(Link& link, Values values) override;
  void on_pull(Link& link, const Pull& pull) override;
  void on_credit_request(Link& link, ActorId actor) override;
  void on_ended(Link& link, EndCause how, const Error& reason) override;
  /// Fails the calls of a lost peer, and stops its actors. Loop's thread.
  void on_dropped(Link& link, const Error& reason, DisconnectCause how);
  /// Returns false if an actor has ended itself, or its process is known to be dead.
  bool is_reachable(const ActorAddress& actor) const;
  /// Returns a function that runs another one later, on the loop's thread.
  ActorThreads::Schedule later();

  const SystemOptions options;
  ProcessIdentity identity;
  LoopTimers timers;
  TlsPolicy tls;
  RefusalLog refusals;

  PeerLinks links;
  ClusterToken token;
  Handshakes handshakes;
  LinkDialer dialer;
  Connector connector;
  Acceptor acceptor;
  FailureDetector failures;

  ActorThreads shared_threads;
  ActorThreads blocking_threads;
  HostedActors actors;
  Relocations relocations;
  const std::shared_ptr<LocalRoute> local;  // shared with pending calls
  OutgoingCalls calls;
  Branches branches;
  TreeCalls trees;
  Relay relay;
  Surveys surveys;
  IncomingCalls incoming;

  // Loop's thread only.
  std::function<void(const ProcessRef&, const Error&, DisconnectCause)> peer_lost;
  std::vector<std::function<void(const ProcessRef&, const Error&)>> peer_watchers;

  Mutex attachments_mutex;  // guards attachments, also while one is made
  std::map<std::type_index, std::shared_ptr<void>> attachments;  // shared with their users

  // Declared last, as its thread uses the members above. Its end drops queued callbacks.
  EventLoop loop;
};

}  // namespace weft::actors
