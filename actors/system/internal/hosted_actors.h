#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/net/event_loop.h"
#include "actors/system/actor_host.h"
#include "actors/system/internal/actor_threads.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/system_methods.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Actors of this process, by id, and the classes of actors that others can spawn here. Any thread,
/// unless a member's comment says otherwise.
class HostedActors final {
 public:
  /// Called once an actor is constructed, on its thread.
  using Constructed = std::function<void(Outcome<std::vector<std::byte>>)>;
  /// `system` is the one that the actors' contexts name.
  HostedActors(System& system, const SystemOptions& options, EventLoop& loop, LoopTimers& timers,
               const ProcessIdentity& identity, ActorThreads& shared_threads,
               ActorThreads& blocking_threads)
      : system_(system),
        options_(options),
        loop_(loop),
        timers_(timers),
        identity_(identity),
        shared_threads_(shared_threads),
        blocking_threads_(blocking_threads) {}

  /// Adds a class of actors. Before listen() and connect() only.
  void provide(Provider provider) { providers_.push_back(std::move(provider)); }
  /// Returns the class that `wanted` names. Throws Error(kNotFound), or Error(kIncompatible) if its
  /// version differs from that of `process`.
  const Provider& find_provider(const InterfaceVersion& wanted, const std::string& process) const;

  ActorId new_id();
  /// Spawns an actor. Throws Error(kAlreadyExists), or Error(kUnavailable) if
  /// this process shuts down.
  ActorAddress spawn(Provider provider, ActorId id, std::string label, MeshPosition place,
                     ProcessRef owner, std::vector<std::byte> arguments, Constructed constructed,
                     RestartInfo restart = {}, ActorThread thread = ActorThread::kOwn);

  /// Returns the host of an actor; null if there is none.
  std::shared_ptr<ActorHost> find(ActorId id) const;
  std::shared_ptr<ActorHost> find(const std::string& label, const std::string& interface) const;
  /// Returns whether an actor of this process ended itself.
  bool has_exited(ActorId id) const;
  /// Makes `owner` the owner of an actor that ended itself, and returns its exit; nullopt if there
  /// was no such actor.
  std::optional<ActorExit> adopt_ended(const std::string& label, const std::string& interface,
                                       ProcessId owner);
  /// Returns the owners of the actors that ended themselves.
  std::vector<ProcessId> owners_of_ended() const;
  std::vector<std::shared_ptr<ActorHost>> all() const;

  /// Queues a call for its actor. Returns the reason of a refusal.
  std::optional<Error> deliver(Envelope envelope);
  /// Returns the credit of the sender at `route` with an actor, if both are known.
  std::optional<Credit> credit_of(const ReturnRoute* route, ActorId actor) const;
  /// Cancels a call of the sender at `route`, whichever actor has it.
  void cancel(const ReturnRoute* route, std::uint64_t call_id);
  /// Drops the waiting calls of the sender at `route`, whose connection has ended, and cancels its
  /// generators.
  void remove_sender(const ReturnRoute* route);
  /// Stops the actors of a lost owner, or keeps them for another owner
  /// (SystemOptions::keep_actors_without_owner).
  void on_owner_lost(ProcessId owner, DisconnectCause how);
  /// Sets the callback for actors that ended themselves. It runs on their threads. Set it before
  /// the first spawn.
  void on_exit(std::function<void(const ActorHost&, const std::string& reason)> callback) {
    on_exit_ = std::move(callback);
  }

  /// Hosts no more actors, and stops all. Blocks until they have ended; ends the process if one
  /// does not.
  void stop();
  /// Joins the threads of all actors and destroys them. After stop() and the end of the loop.
  void join();

 private:
  bool is_closing() const;
  std::optional<Error> refusal_of(Mailbox::Refusal refusal, ActorId actor,
                                  const ActorHost* host) const;
  Error closed_error(ActorId actor, const ActorHost* host) const;
  void ended(ActorId id);
  void remove(ActorId id);

  System& system_;
  const SystemOptions& options_;
  EventLoop& loop_;
  LoopTimers& timers_;
  const ProcessIdentity& identity_;
  ActorThreads& shared_threads_;
  ActorThreads& blocking_threads_;
  std::vector<Provider> providers_;
  std::function<void(const ActorHost&, const std::string&)> on_exit_;

  mutable Mutex mutex_;                                            // guards the members below
  std::unordered_map<ActorId, std::shared_ptr<ActorHost>> hosts_;  // shared with deliveries
  /// Actors that ended themselves; the last kMaxExits of them.
  struct Ended {
    ActorExit exit;
    std::string interface;
    ProcessId owner;
    Error error;  ///< Error of their calls.
  };
  static constexpr std::size_t kMaxExits = 4096;
  std::unordered_map<ActorId, Ended> exits_;
  std::deque<ActorId> exit_order_;
  /// Actors that were stopped for a restart; the last kMaxReplaced of them.
  static constexpr std::size_t kMaxReplaced = 65'536;
  std::set<ActorId> replaced_;
  std::uint64_t next_id_ = 1;
  bool closing_ = false;
};

}  // namespace weft::actors
