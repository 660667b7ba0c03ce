#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/mailbox/mailbox.h"
#include "actors/net/event_loop.h"
#include "actors/system/internal/cluster_token.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/relay.h"
#include "actors/system/internal/relocations.h"
#include "actors/system/internal/surveys.h"
#include "actors/system/internal/system_methods.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Calls that arrive at this process: passes them to their actors, and answers those of actor 0,
/// the system itself (SystemMethod). Any thread.
class IncomingCalls final {
 public:
  IncomingCalls(EventLoop& loop, LoopTimers& timers, const ProcessIdentity& identity,
                PeerLinks& links, ClusterToken& token, HostedActors& actors,
                Relocations& relocations, Relay& relay, Surveys& surveys)
      : loop_(loop),
        timers_(timers),
        identity_(identity),
        links_(links),
        token_(token),
        actors_(actors),
        relocations_(relocations),
        relay_(relay),
        surveys_(surveys) {}

  /// Delivers a call. Returns the reason of a refusal.
  std::optional<Error> deliver(Envelope envelope) {
    if (envelope.call.actor == ActorId(0)) return answer(envelope);
    return actors_.deliver(std::move(envelope));
  }
  /// Tells the owner of an actor that it ended itself.
  void report_exit(const ActorHost& actor, const std::string& reason);
  /// Sets the callback for actors of this process, as their owner, that ended themselves. It must
  /// not block.
  void on_exited(std::function<void(const ActorAddress&)> callback);

 private:
  using Answer = std::function<void(Outcome<std::vector<std::byte>>)>;
  std::optional<Error> answer(const Envelope& envelope);
  /// Handlers of the system's methods. Throw the error that the caller receives.
  void stop_actor(ActorId actor, const ProcessRef& caller, const Answer& answer);
  void stop_actors(const StopRequest& request, const ProcessRef& caller, const Answer& answer);
  void report(ActorId actor, const Answer& answer);
  /// Answers once the address is known. If this process has not heard of a death, waits for a
  /// moment.
  void locate(const ActorAddress& actor, const Answer& answer);
  void note_exit(const ActorExit& exit, const ProcessRef& caller);
  /// Answers on the actor's thread, which runs the decider between handlers.
  void decide(DecisionRequest request, const Answer& answer);
  void spawn(SpawnRequest request, const ProcessRef& caller, const Answer& answer);
  /// Makes `owner` the owner of an actor and closes the link to the previous owner.
  /// An actor that has ended itself has no thread any more, but `owner` is told of its exit.
  ActorAddress adopt(const SpawnRequest& request, const ProcessRef& owner);
  void send_exit(const ActorExit& exit, ProcessId owner);

  EventLoop& loop_;
  LoopTimers& timers_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  ClusterToken& token_;
  HostedActors& actors_;
  Relocations& relocations_;
  Relay& relay_;
  Surveys& surveys_;
  Mutex mutex_;
  std::function<void(const ActorAddress&)> exited_;  // guarded by mutex_
};

}  // namespace weft::actors
