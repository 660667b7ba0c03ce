#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <typeindex>
#include <vector>

#include "actors/call/combine.h"
#include "actors/call/first_of.h"
#include "actors/call/future.h"
#include "actors/message/ids.h"
#include "actors/net/tls.h"
#include "actors/system/actor_mesh.h"
#include "actors/system/actor_ref.h"
#include "actors/system/context.h"
#include "actors/system/provider.h"
#include "actors/system/survey.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

/// State of a process whose connection ended. kSaidGoodbye: it announced its end; kEnded: it has
/// ended; kDisconnected: unknown, it may reconnect.
enum class DisconnectCause { kSaidGoodbye, kEnded, kDisconnected };

struct SystemOptions {
  /// Display name: "driver", "worker0/device1".
  std::string name = "process";
  /// Secret of the cluster, which its processes prove to each other. Without it, listen() and
  /// connect() throw.
  Secret token;
  /// True for the head of a cluster, which a dialler of a head expects. It sends new tokens to
  /// others (replace_token()) and accepts none.
  bool is_head = false;
  /// Use of TLS 1.3 below the proof of the token. `identity` is what this process presents; empty:
  /// generated, as the token is proof enough.
  TlsMode tls = TlsMode::kBeyondLoopback;
  TlsIdentity identity = {};
  /// Certificate, by its SHA-256, that the process at `at` must present, so that others with the
  /// token cannot impersonate it. `also_on_loopback` requires it there, too.
  struct Pinned {
    Address at;
    std::string sha256;
    bool also_on_loopback = false;
  };
  std::optional<Pinned> pinned = {};
  /// Executable of the app and its SHA-256.
  std::string binary_name;
  std::string binary_hash;
  /// Id of the run that the process belongs to, as RunDescription::number() returns it; 0: none.
  /// Processes of one run refuse each other unless they have the same binary_hash.
  std::uint64_t run = 0;
  /// Host of this process: equal for the processes of one agent, which can share memory. Empty: no
  /// other process shares memory with this one.
  std::string memory_host = {};
  /// Limit on the objects (mesh/objects) that the processes of `memory_host` keep in memory, in
  /// bytes; 0: a quarter of the available memory.
  std::uint64_t object_memory = 0;
  /// Folder on disk for objects beyond that limit; empty: one in the folder for temporary files.
  std::filesystem::path object_folder = {};
  /// Host that others connect to; empty: the listening address.
  std::string advertise_host;
  /// Deadline of calls without within(...).
  Nanoseconds default_deadline = std::chrono::seconds(30);
  /// Time in which declare_dead() can give the cause of a lost connection, before its calls fail
  /// with "connection lost".
  Nanoseconds eof_grace = std::chrono::milliseconds(250);
  /// Silence after which a peer is suspect, and dead; time in which this process did not run does
  /// not count. Idle links carry a heartbeat every `beat_interval`.
  Nanoseconds beat_interval = std::chrono::seconds(1);
  Nanoseconds suspect_after = std::chrono::seconds(3);
  Nanoseconds dead_after = std::chrono::seconds(10);
  /// Time limit of connections made for a call.
  Nanoseconds connect_within = std::chrono::seconds(5);
  MailboxLimits mailbox;
  /// Number of threads of the actors with ActorThread::kShared; 0: that of the processors, at least
  /// 2. They start when they are needed, and more while handlers block them.
  std::size_t actor_threads = 0;
  /// True if actors survive an owner that disconnects without a goodbye: it, or another process,
  /// can own them again. Otherwise they end with it.
  bool keep_actors_without_owner = false;
  /// True if this process relays calls of meshes to other processes, as all processes of a mesh do
  /// (see MeshRef::call()). Heads and agents do not: they must serve all others.
  bool relays_calls = true;
  /// Share of the I/O thread. kControl is for a process that serves all others and computes
  /// nothing. It costs a fifth of the calls that one thread can send in a second, as it wakes for
  /// each.
  ThreadPriority io_share = ThreadPriority::kOrdinary;
  /// Log of this process and its actors, with errors that no caller receives.
  Log log = Log::standard_error(LogLevel::kInfo);
};

/// Actors of a mesh, and the class and arguments with which they can be restarted. A value.
struct SpawnedActors {
  InterfaceVersion interface;
  std::string name;  ///< Name of the mesh.
  MeshShape shape;
  std::vector<std::byte> arguments;  ///< Encoded arguments of the constructor.
  std::vector<std::shared_ptr<const ActorAddress>> addresses = {};  ///< By rank; at first empty.
  ActorThread thread = ActorThread::kOwn;
};

/// Actor runtime of one process: an I/O thread that never runs user code, and the threads of the
/// hosted actors (ActorThread).
///
/// Created in main (or by a test; several may live in one process), before the actors and
/// references that use it, and destroyed after them. The destructor stops the actors, says goodbye
/// to peers, and fails pending calls with Error(kCancelled). Any thread, but functions that block
/// not from the I/O thread's callbacks.
class System final : public DecodeContext {
 public:
  // For users: processes without a Cluster, and tests.

  explicit System(SystemOptions options);
  ~System() override;

  /// Lets other processes spawn actors of class T here. Call before listen() and connect().
  template <typename T>
  void provide() {
    provide(make_provider<T>());
  }
  /// Like provide(), for actors that also use objects of this process. `make` runs on the actor's
  /// thread with a Context& and T::Arguments, and returns a std::unique_ptr<T>.
  template <typename T, typename Make>
  void provide(Make make) {
    provide(make_provider<T>(std::move(make)));
  }
  /// Accepts connections from now on. Returns the address with the chosen port. Throws
  /// Error(kUnavailable).
  Address listen(const Address& address);
  /// Connects, with retries until `within` has passed. Blocks. Processes other than `wanted`
  /// refuse. Throws Error(kUnavailable), or the other side's refusal (kIncompatible and others).
  ProcessRef connect(const Address& address, Nanoseconds within = std::chrono::seconds(10),
                     ExpectedPeer wanted = {});

  ProcessRef self() const;
  const SystemOptions& options() const;
  /// Returns the number of actors here whose owners are connected.
  std::size_t num_owned_actors() const;
  /// Returns the processes that are connected now.
  std::vector<ProcessRef> peers() const;
  /// Returns the unanswered calls of this process, as far as a survey lists them.
  std::vector<WaitingCall> waiting_calls() const;
  /// Notes, for `weft why`, that this process ends, and why. The first reason counts. Any thread.
  void set_exit_reason(const std::string& why);

  /// Hosts an actor here, on its own thread, that any process can call by `name`. Blocks until it
  /// is constructed; throws its constructor's error.
  template <typename T, typename... Arguments>
  ActorRef<T> host(const std::string& name, Arguments&&... arguments) {
    return host<T>(ActorThread::kOwn, name, std::forward<Arguments>(arguments)...);
  }
  /// Like host(), on the thread that `thread` says.
  template <typename T, typename... Arguments>
  ActorRef<T> host(ActorThread thread, const std::string& name, Arguments&&... arguments) {
    return ref<T>(host_actor(
        make_provider<T>(), name,
        internal::encode_constructor_arguments<T>(std::forward<Arguments>(arguments)...), thread));
  }
  /// Like host(), for an actor that uses objects of this process. `make` runs on the actor's
  /// thread.
  template <typename T>
  ActorRef<T> host_with(const std::string& name, std::function<std::unique_ptr<T>(Context&)> make,
                        ActorThread thread = ActorThread::kOwn) {
    Provider provider{interface_version<T>(), kMethodTable<T>,
                      [make = std::move(make)](Context& context, std::span<const std::byte>) {
                        return internal::erase_type<T>(make(context));
                      }};
    return ref<T>(host_actor(std::move(provider), name, {}, thread));
  }
  /// Returns the actor that `process` hosts as `name`; sends nothing.
  template <typename T>
  ActorRef<T> named(const ProcessRef& process, const std::string& name) {
    return ref<T>(ActorAddress{process, actor_id_of(name), name});
  }
  template <typename T>
  ActorRef<T> ref(ActorAddress address) {
    static_cast<void>(internal::ActorCheck<T>::value);
    return ActorRef<T>(*this, std::make_shared<const ActorAddress>(std::move(address)));
  }

  /// Finds the actor of that name in this cluster: "hits" of this process's run, or else of the
  /// cluster; "quickstart/hits" of another run. Waits for it up to `within`; zero or less: asks
  /// once. Fails with kNotFound, which tells nearest names, kInvalidArgument if the name is that
  /// of several actors, and kIncompatible if the actor is of another class.
  template <typename T>
  Future<ActorRef<T>> find(const std::string& name, Nanoseconds within = kDefaultDeadline) {
    static_cast<void>(internal::ActorCheck<T>::value);
    return Future<ActorRef<T>>(find_actors(name, within), [](Pending& pending) {
      return internal::only_rank<T>(internal::take_found<T>(static_cast<CallState&>(pending)));
    });
  }
  /// Like find(), for all actors of a mesh.
  template <typename T>
  Future<MeshRef<T>> find_mesh(const std::string& name, Nanoseconds within = kDefaultDeadline) {
    static_cast<void>(internal::ActorCheck<T>::value);
    return Future<MeshRef<T>>(find_actors(name, within), [](Pending& pending) {
      return internal::take_found<T>(static_cast<CallState&>(pending));
    });
  }

  // For owners of actors (cluster/), and for the roles of a process (launch/).

  /// Spawns one actor per rank, in row-major order, on `processes`, which must provide T. Blocks
  /// until all are constructed. Throws the first error, naming the rank, after stopping the others.
  template <typename T, typename... Arguments>
  ActorMesh<T> spawn_mesh(const std::string& name, const MeshShape& shape,
                          const std::vector<ProcessRef>& processes, Arguments&&... arguments) {
    return ActorMesh<T>(handle_of<T>(spawn_actors(
        {interface_version<T>(),
         name,
         shape,
         internal::encode_constructor_arguments<T>(std::forward<Arguments>(arguments)...),
         {}},
        processes)));
  }
  /// Returns a handle of spawned actors of class T.
  template <typename T>
  MeshRef<T> handle_of(const SpawnedActors& actors) {
    return MeshRef<T>(*this, actors.name, actors.shape, actors.addresses);
  }

  /// Spawns actors on those ranks of a mesh whose process has changed, e.g. after a death, and
  /// returns the mesh. The other actors stay as they are, also when this throws.
  template <typename T, typename... Arguments>
  MeshRef<T> respawn_mesh(const MeshRef<T>& before, const std::vector<ProcessRef>& processes,
                          Arguments&&... arguments) {
    SpawnedActors actors{
        interface_version<T>(),
        before.name(),
        before.shape(),
        internal::encode_constructor_arguments<T>(std::forward<Arguments>(arguments)...),
        {}};
    for (ActorAddress& actor : before.addresses())
      actors.addresses.push_back(std::make_shared<const ActorAddress>(std::move(actor)));
    return handle_of<T>(spawn_actors(std::move(actors), processes));
  }
  /// Spawns actors on those ranks of `actors` whose process differs from that in `processes`, at
  /// first on all. Blocks until they are constructed. Throws the first error, naming the rank,
  /// after stopping those that were spawned.
  /// `again`: ranks that get a new actor even if their process is the same. The actor there is
  /// stopped first; calls that it has not started go to the new one, if they were made to a
  /// supervised actor.
  SpawnedActors spawn_actors(SpawnedActors actors, const std::vector<ProcessRef>& processes,
                             const RestartInfo& info = {},
                             const std::set<std::uint32_t>& again = {});

  /// Adopts the actors of a mesh that another process spawned and left
  /// (SystemOptions::keep_actors_without_owner). Ranks whose actor is missing or does not answer
  /// are unusable, and can be respawned.
  template <typename T>
  ActorMesh<T> adopt_mesh(const std::string& name, const MeshShape& shape,
                          const std::vector<ProcessRef>& processes) {
    return ActorMesh<T>(
        handle_of<T>(adopt_actors({interface_version<T>(), name, shape, {}}, processes)));
  }

  /// Like adopt_mesh(). Missing actors have ids of lost_actor_id().
  SpawnedActors adopt_actors(SpawnedActors actors, const std::vector<ProcessRef>& processes);

  /// Declares `process` dead. Every call that waits for it, and every later one, fails with
  /// `error`, also in place of an earlier reason.
  void declare_dead(ProcessId process, const Error& error);
  /// Fails the calls that were sent to these actors, whose process has died, with `error`, or lets
  /// them wait for the restart. Calls of other actors of that process are not affected.
  void declare_dead(const std::vector<ActorAddress>& actors, const Error& error);
  /// Fails the calls that wait for these actors now, and cancels them there.
  void fail_calls(const std::vector<ActorAddress>& actors, const Error& error);
  /// Fails the calls that wait for `process` now and cancels them there. Later calls are not
  /// affected.
  void fail_calls(ProcessId process, const Error& error);
  /// Supervises an actor whose address names this process as its owner: after the death of its
  /// process, calls that were not sent, or are idempotent, wait until restart_ends(), here and in
  /// other processes.
  void supervise(const ActorAddress& actor);
  /// Begins the restart of the supervised actors of a process that has died. Call before
  /// declare_dead().
  void confirm_deaths_of(ProcessId process);
  /// Returns where an actor was last, with the addresses on which this process listens now.
  ActorAddress last_known_address(const ActorAddress& actor) const;
  /// Begins the restart of a supervised actor. Optional: a failed call begins it, too.
  void restart_begins(const ActorAddress& actor);
  /// Ends the restart of an actor: waiting and later calls go to the address `now`, which is
  /// supervised in turn, or fail with the error.
  void restart_ends(const ActorAddress& actor, const Outcome<ActorAddress>& now);
  /// Ends the supervision of an actor. Waiting calls fail with `why`.
  void end_supervision(const ActorAddress& actor, const Error& why);
  /// Returns true if a supervised actor ended itself (Context::exit), or is lost.
  bool has_ended(const ActorAddress& actor) const;
  /// Returns the process that has spawned, hosted or adopted an actor of this process. Throws
  /// Error(kNotFound) if there is no such actor.
  ProcessRef owner_of(ActorId actor) const;
  /// Returns whether this process hosts an actor as `name`.
  bool hosts(const std::string& name) const;
  /// Sets the callback for actors that this process owns and that ended themselves
  /// (Context::exit). Any thread; it must not block.
  void on_actor_exited(std::function<void(const ActorAddress&)> callback);
  /// Sets the callback for lost peers; their calls have failed by then. This and the next four run
  /// on the I/O thread and must not block: tell() and TaskPoster::post() are allowed. Set them
  /// before listen() and connect().
  void on_peer_disconnected(
      std::function<void(const ProcessRef&, const Error&, DisconnectCause)> callback);
  /// Sets the callback for a peer silent for `dead_after`. It counts as lost; on_peer_disconnected
  /// follows.
  void on_peer_timed_out(std::function<void(const ProcessRef&, Nanoseconds silence)> callback);
  /// Sets the callback for a suspect peer; without a time: data has come from it again.
  void on_peer_suspected(
      std::function<void(const ProcessRef&, std::optional<Nanoseconds> silence)> callback);
  /// Sets the callback for a connection that ended without a goodbye: declare_dead() within
  /// `eof_grace` can give the cause.
  void on_peer_eof(std::function<void(const ProcessRef&)> callback);
  /// Sets the callback for refused connections; at most once in ten seconds.
  void on_refused(std::function<void(const std::string& text)> callback);

  /// Returns the token that this process proves now.
  Secret token() const;
  /// Result of replace_token().
  struct TokenReplacement {
    std::vector<ProcessId> members;  ///< processes that may use the former token
    std::vector<std::string> told;   ///< names of peers that received the new token
    std::vector<std::string>
        not_notified;  ///< names of peers without TLS, which did not receive it
  };
  /// Replaces the token, which others prove from now on. Connected peers stay. They receive the new
  /// token and pass it on to their peers, except where others could read it on the way. The former
  /// token is accepted for `former_for`, from connected peers and from `members`. Blocks; not on
  /// the I/O thread.
  TokenReplacement replace_token(const Secret& next, Nanoseconds former_for,
                                 const std::vector<ProcessId>& members);
  /// Accepts a token that was replaced before this process began, from `members`, for `within`.
  /// Call before listen().
  void accept_former_token(const Secret& former, Nanoseconds within,
                           const std::vector<ProcessId>& members);

  /// Runs `callback` every `interval` on the I/O thread, as long as the system lives.
  void run_every(Nanoseconds interval, std::function<void()> callback);
  /// Runs `callback` once on the I/O thread, after `delay`.
  void run_after(Nanoseconds delay, std::function<void()> callback);

  /// Calls `callback` for each process whose connection is lost, after on_peer_disconnected(). On
  /// the I/O thread; must not block. Several callbacks are possible; they stay until the system
  /// ends.
  void watch_lost_peers(std::function<void(const ProcessRef&, const Error&)> callback);
  /// Returns the object of type T of this process; `make`, which returns a std::shared_ptr<T>,
  /// creates it at the first call. It lives as long as the system. `make` must not call this
  /// function.
  template <typename T, typename Make>
  std::shared_ptr<T> attachment(Make make) {
    return std::static_pointer_cast<T>(
        attach(typeid(T), [&]() -> std::shared_ptr<void> { return make(); }));
  }

  // For the typed handles.

  struct Method {
    const char* name;
    std::uint32_t index;
    std::uint64_t fingerprint;
    bool urgent;
    bool idempotent;
    Nanoseconds deadline;  ///< kDefaultDeadline: that of the options.
  };
  std::shared_ptr<CallState> call(const std::shared_ptr<const ActorAddress>& target,
                                  const Method& method, Nanoseconds within,
                                  std::vector<std::byte> arguments);
  /// Calls each target with its arguments. Throws Error(kInvalidArgument) before the first call if
  /// the arguments of one are too large.
  std::vector<std::shared_ptr<CallState>> call_each(
      const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
      Nanoseconds within, std::vector<std::vector<std::byte>> arguments);
  /// Calls a generator of each target, with the same arguments, and returns the queue of their
  /// values, whose keys are the indexes of the targets. Throws Error(kInvalidArgument) if the
  /// arguments are too large.
  std::shared_ptr<CompletionQueue> stream(
      const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
      Nanoseconds within, const std::vector<std::byte>& arguments);
  /// Calls all targets with the same arguments; from 32 on, over a tree of their processes. With
  /// `reduce`, some results may come combined (CallState::level()). Throws Error(kInvalidArgument)
  /// if the arguments are too large.
  std::vector<std::shared_ptr<CallState>> call_all(
      const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
      Nanoseconds within, std::vector<std::byte> arguments,
      std::optional<ReduceOperation> reduce = std::nullopt);
  /// Sends one-way calls to all targets, like call_all().
  void tell_all(const std::vector<std::shared_ptr<const ActorAddress>>& targets,
                const Method& method, std::vector<std::byte> arguments);
  /// Sends a one-way call. Returns false if it cannot be sent at all.
  bool tell(const std::shared_ptr<const ActorAddress>& target, const Method& method,
            std::vector<std::byte> arguments);
  /// Returns the index of one of two random actors: of the one for which fewer calls of this
  /// process wait, or of one that has neither died nor ended, if there is any. Looks at all waiting
  /// calls.
  std::size_t less_loaded(const std::vector<std::shared_ptr<const ActorAddress>>& actors) const;
  /// Stops the actors of a mesh in a process that lives on: those that this process owns, or whose
  /// owner is not connected. `epoch`: spares those of later epochs (RestartInfo::epoch); 0: none.
  /// Done when they have ended.
  std::shared_ptr<CallState> stop_actors_of(const ProcessRef& process, const std::string& mesh,
                                            std::uint64_t epoch, Nanoseconds within);
  /// Stops an actor; done when the actor has ended.
  std::shared_ptr<CallState> stop_actor(const std::shared_ptr<const ActorAddress>& target,
                                        Nanoseconds within);

  /// Requests the actor's report (Context::on_report()) from its process's I/O thread.
  std::shared_ptr<CallState> ask_report(const std::shared_ptr<const ActorAddress>& target,
                                        Nanoseconds within);

  /// Asks a decider of `parent` (Context::add_decider()) about a death in its child. The result is
  /// an encoded OnFailure.
  std::shared_ptr<CallState> ask_decider(const ActorAddress& parent, std::uint64_t decider,
                                         std::vector<std::byte> incident, Nanoseconds within);
  /// Forgets a decider of an actor of this process, if both exist.
  void forget_decider(ActorId parent, std::uint64_t decider);

  /// Surveys processes, whose I/O threads answer. `first`, which must be connected, asks the
  /// targets, and those ask the processes behind them, over existing connections. Returns an entry
  /// for each process that was asked, whether it answered or not, within request.within_ns. Fails
  /// with kIncompatible if `first` runs another build of Weft.
  Future<std::vector<ProcessSurvey>> survey(const ProcessRef& first, const SurveyRequest& request,
                                            Nanoseconds within);

  struct Impl;

 private:
  /// Calls the directory of this process.
  std::shared_ptr<CallState> find_actors(const std::string& name, Nanoseconds within);
  std::shared_ptr<const ActorAddress> shared_last_known_address(
      const std::shared_ptr<const ActorAddress>& actor) const;
  void provide(Provider provider);
  std::shared_ptr<void> attach(std::type_index type,
                               const std::function<std::shared_ptr<void>()>& make);
  std::shared_ptr<CallState> call_system(const std::shared_ptr<const ActorAddress>& target,
                                         std::uint32_t method, const char* name,
                                         Nanoseconds within);
  ActorAddress host_actor(Provider provider, const std::string& name,
                          std::vector<std::byte> arguments, ActorThread thread);
  /// Stops the actors of `again` that are in `processes`. Throws Error if one does not end.
  void stop_for_restart(const SpawnedActors& actors, const std::vector<ProcessRef>& processes,
                        const std::set<std::uint32_t>& again);
  std::shared_ptr<CallState> request_actor(const SpawnedActors& actors, std::size_t rank,
                                           const ProcessRef& process, bool adopt_existing,
                                           Nanoseconds within, const RestartInfo& info = {});

  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::actors

#include "actors/system/typed_calls.h"
