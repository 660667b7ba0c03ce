#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/mailbox/mailbox.h"
#include "actors/net/event_loop.h"
#include "actors/system/internal/cluster_token.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/surveys.h"
#include "actors/system/internal/system_methods.h"

namespace weft::actors {

/// Calls that arrive at this process: passes them to their actors, and answers those of actor 0,
/// the system itself (SystemMethod). Has no state of its own. Any thread.
class IncomingCalls final {
 public:
  IncomingCalls(EventLoop& loop, const ProcessIdentity& identity, PeerLinks& links,
                ClusterToken& token, HostedActors& actors, Surveys& surveys)
      : loop_(loop),
        identity_(identity),
        links_(links),
        token_(token),
        actors_(actors),
        surveys_(surveys) {}

  /// Delivers a call. Returns the reason of a refusal.
  std::optional<Error> deliver(Envelope envelope) {
    if (envelope.call.actor == ActorId(0)) return answer(envelope);
    return actors_.deliver(std::move(envelope));
  }

 private:
  using Answer = std::function<void(Outcome<std::vector<std::byte>>)>;
  std::optional<Error> answer(const Envelope& envelope);
  /// Handlers of the system's methods. Throw the error that the caller receives.
  void stop_actor(ActorId actor, const ProcessRef& caller, const Answer& answer);
  void report(ActorId actor, const Answer& answer);
  void spawn(SpawnRequest request, const ProcessRef& caller, const Answer& answer);
  /// Makes `owner` the owner of an actor and closes the link to the previous owner.
  ActorAddress adopt(const SpawnRequest& request, ProcessId owner);

  EventLoop& loop_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  ClusterToken& token_;
  HostedActors& actors_;
  Surveys& surveys_;
};

}  // namespace weft::actors
