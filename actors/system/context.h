#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/system/actor_timer.h"
#include "actors/system/survey.h"
#include "core/base/clock.h"
#include "core/codec/codec.h"
#include "core/log/log.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

class ActorHost;
class System;
template <typename T>
class ActorRef;
template <typename T>
class MeshRef;
template <typename R>
class Future;
template <typename R>
class Spawning;
struct SpawnOptions;

/// Position of an actor in its mesh. An actor that is hosted alone has a mesh of one without axes.
struct MeshPosition {
  std::string mesh;
  MeshShape shape;
  std::int64_t rank = 0;

  std::vector<std::int64_t> coordinates() const { return shape.coordinates(rank); }
  static constexpr auto fields =
      weft::fields(&MeshPosition::mesh, &MeshPosition::shape, &MeshPosition::rank);
};

/// Reason why an actor was restarted.
struct RestartInfo {
  std::uint64_t epoch = 0;  ///< Epoch of its mesh in which it was spawned; 0: not known.
  /// Number of this restart of the mesh within SpawnOptions::within; 0: the first incarnation.
  std::uint32_t attempt = 0;
  std::string incident = {};  ///< "worker1 device 0 died: SIGKILL"
  static constexpr auto fields =
      weft::fields(&RestartInfo::epoch, &RestartInfo::attempt, &RestartInfo::incident);
};

/// Name of the actor that spawns children for the actors of its process. Hosted by processes that
/// have a head; see actors/cluster/spawner.h.
inline constexpr const char* kSpawnerName = "spawner";

/// Thread on which an actor runs.
enum class ActorThread : std::uint8_t {
  kOwn,     ///< A thread of its own: the actor owns a device, or computes for long.
  kShared,  ///< One of a few threads that the actors of a process share, another one each time.
};

/// Handle that runs tasks on an actor's thread. A copyable value that may outlive the actor.
class TaskPoster final {
 public:
  explicit TaskPoster(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  /// Queues `task`, which runs between handlers or while one is suspended, but not beside a
  /// `blocking` one. Returns false and drops it if the actor has ended. Any thread.
  bool post(std::function<void()> task) const { return mailbox_->post(std::move(task)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;  // shared with the host and other posters
};

/// Access of an actor to its runtime: passed to its constructor, valid as long as the actor lives.
///
/// The actor's thread only. A `blocking` handler may also find, spawn and stop actors, call exit(),
/// and read the state of its call. Any thread: post(), poster(), log().
class Context final {
 public:
  /// Borrows its arguments. For the system.
  Context(System& system, ActorHost& host, const ActorAddress& self, const MeshPosition& place)
      : system_(system), host_(host), self_(self), place_(place) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  System& system() const { return system_; }
  /// Returns the object to which decoded handles belong: the system. For codecs.
  DecodeContext* decode_context() const;
  /// Returns this actor's address, with the current listening address of the process.
  ActorAddress self() const;
  /// Returns a handle of this actor, to pass on. `T`: its class.
  template <typename T>
  ActorRef<T> handle() const;
  /// Finds an actor, or a mesh, by name: auto hits = co_await context.find<Counter>("hits"). See
  /// System::find().
  template <typename T>
  Future<ActorRef<T>> find(const std::string& name, Nanoseconds within = kDefaultDeadline) const;
  template <typename T>
  Future<MeshRef<T>> find_mesh(const std::string& name,
                               Nanoseconds within = kDefaultDeadline) const;
  /// Spawns an actor, or a mesh of actors: children of this actor. Children stop with this actor,
  /// in reverse order of their spawns. They survive a restart of the driver. ActorRef::stop() and
  /// MeshRef::stop() of the parent leave them until the parent's owner ends. Names of children are
  /// names of the run.
  ///   auto spawning = context.spawn<Cache>("cache", {.restarts = 3}, arguments...);
  ///   ActorRef<Cache> cache = co_await spawning;
  ///   auto spawning = context.spawn<Worker>("team", {{"worker", 4}}, {}, arguments...);
  ///   MeshRef<Worker> team = co_await spawning;
  /// Options are those of Cluster::spawn(), but `decide` runs on this actor's thread. Without a
  /// policy, the method that this actor's class lists as on<&T::on_failure>("on_failure", urgent)
  /// decides: OnFailure on_failure(Incident). Without such a method a death escalates: calls of the
  /// children fail, and the children are stopped. The deadline is that of the running handler.
  /// Fails with the errors of Cluster::spawn(), and with kFailedPrecondition without a cluster, or
  /// if they are nested deeper than 64. Defined in actors/cluster/context_spawn.h (cluster.h
  /// includes it).
  template <typename T, typename... Arguments>
  Spawning<ActorRef<T>> spawn(const std::string& name, const SpawnOptions& options,
                              Arguments&&... arguments) const;
  template <typename T, typename... Arguments>
  Spawning<MeshRef<T>> spawn(const std::string& name, const MeshShape& shape,
                             const SpawnOptions& options, Arguments&&... arguments) const;
  /// Stops children of this actor. Done when they have ended. Fails with kNotFound if this actor
  /// has no children of that name, and with kInvalidArgument for a slice of a mesh; throws
  /// Error(kInvalidArgument) for one actor of a mesh. Defined like spawn().
  template <typename T>
  Future<void> stop(const ActorRef<T>& child) const;
  template <typename T>
  Future<void> stop(const MeshRef<T>& child) const;
  Future<void> stop(const std::string& name) const;
  /// Returns "front[data=0,tensor=1]", or the name by which the actor is hosted.
  const std::string& name() const { return self_.label; }
  const MeshPosition& place() const { return place_; }
  /// Returns why the actor was restarted; attempt 0: it is the first incarnation.
  const RestartInfo& restart_info() const;

  // State of the running handler; outside of handlers (constructor, posted tasks) of the actor. A
  // `blocking` handler may read it on its thread.
  /// Returns the calling process.
  ProcessRef caller() const;
  /// Returns the caller's deadline; TimePoint::max() if there is none.
  TimePoint deadline() const;
  /// Returns a token that is set when the caller cancels, its deadline passes, or the actor stops.
  std::stop_token stop_token() const;

  bool post(std::function<void()> task) const { return poster().post(std::move(task)); }
  TaskPoster poster() const;
  Wakeup make_wakeup() const;
  /// Answers MeshRef::reports() with `report` from now on, on the I/O thread, also while the actor
  /// is busy or stuck. `report` must not block and must own what it reads: it may run after the
  /// actor's end.
  template <typename Make>
  void on_report(Make report) const {
    set_report([report = std::move(report)] { return encode(report()); });
  }
  /// Describes the actor's activity to System::survey(), by the rules of on_report().
  void on_activity(std::function<ActorActivity()> activity) const;
  /// Returns the log of this process. Several actors share it: name the actor in each line.
  const Log& log() const;
  /// Ends the actor after the running handler, which may still await. Waiting and later calls fail
  /// with Error(kNotFound), which has the reason. Other suspended calls are cancelled. This is no
  /// death: the actor is not restarted. A call that is still suspended after 10 s is abandoned, and
  /// a `blocking` handler that called exit() is cancelled then.
  void exit(const std::string& reason) const;
  /// Runs `task` after `time`, as long as the returned timer lives: between handlers, or while one
  /// is suspended, but not beside a `blocking` one.
  ActorTimer after(Nanoseconds time, std::function<void()> task) const;
  /// Runs `task` like after(), every `interval`, first after one interval. A task that is late, as
  /// the actor was busy, runs once. Throws Error(kInvalidArgument) unless the interval is above
  /// zero.
  ActorTimer every(Nanoseconds interval, std::function<void()> task) const;
  /// Suspends a handler: co_await context.sleep(10ms).
  Wakeup::Waiting sleep(Nanoseconds time) const { return make_wakeup().wait_for(time); }

  // For spawn().

  /// Adds a function that decides about deaths in a child: encoded Incident -> encoded OnFailure.
  /// It runs on this actor's thread, like a posted task, until System::forget_decider(). Returns
  /// its id.
  std::uint64_t add_decider(
      std::function<std::vector<std::byte>(std::span<const std::byte> incident)> decide) const;
  /// Method of this actor's class, as calls name it.
  struct OwnMethod {
    std::uint32_t index = 0;
    std::uint64_t fingerprint = 0;
  };
  /// Returns the `urgent` method of that name; nullopt if the class has none.
  std::optional<OwnMethod> urgent_method(const std::string& name) const;

 private:
  void set_report(std::function<std::vector<std::byte>()> report) const;

  System& system_;
  ActorHost& host_;
  const ActorAddress& self_;
  const MeshPosition& place_;
};

}  // namespace weft::actors
