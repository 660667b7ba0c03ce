#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// What is known of a process whose connection is gone: it has said goodbye, it has ended, or
/// nobody knows, and it may connect again.
enum class Loss { kLeft, kEnded, kCutOff };

struct SystemOptions {
  /// For people: "driver", "worker0/device1".
  std::string name = "process";
  /// What the processes of a cluster know, and prove to each other. None: neither listen() nor
  /// connect() works.
  Secret token;
  /// The head of its cluster, whom those want who dial a head. It tells others of a new token
  /// (replace_token()), and is told by none.
  bool is_head = false;
  /// Beyond loopback, both sides prove the token over TLS 1.3. `identity` is what this process
  /// presents; none: one of its own, as the token is proof enough.
  Tls::Use tls = Tls::Use::kBeyondLoopback;
  TlsIdentity identity = {};
  /// Whoever listens at `at` has to present the certificate with this SHA-256, so that others who
  /// have the token cannot pass for it. With `also_on_loopback`, it is asked for there too.
  struct Pinned {
    Address at;
    std::string sha256;
    bool also_on_loopback = false;
  };
  std::optional<Pinned> pinned = {};
  /// The app's executable and its SHA-256. Two processes that both give a hash must give the same.
  std::string binary_name;
  std::string binary_hash;
  /// The host that others are told to connect to; empty: the one listened on.
  std::string advertise_host;
  /// Of calls that do not say within(...).
  Nanoseconds default_deadline = std::chrono::seconds(30);
  /// How long a lost connection waits for fail_peer() to say why, before its calls fail with
  /// "connection lost".
  Nanoseconds eof_grace = std::chrono::milliseconds(250);
  /// A peer from which nothing came for so long, while this process could see it, is suspect, and
  /// then dead; silent links carry a sign of life every `beat_interval`.
  Nanoseconds beat_interval = std::chrono::seconds(1);
  Nanoseconds suspect_after = std::chrono::seconds(3);
  Nanoseconds dead_after = std::chrono::seconds(10);
  /// For connections made on the way to a call.
  Nanoseconds connect_within = std::chrono::seconds(5);
  MailboxLimits mailbox;
  /// Actors whose owner is gone without a goodbye wait for it, or for who takes them over; else
  /// they end with it.
  bool keeps_orphans = false;
  /// Of the I/O thread: kControl where the process serves all others, and computes nothing. It
  /// takes a fifth of the calls that one thread can send in a second, as it wakes for each.
  ThreadShare io_share = ThreadShare::kOrdinary;
  /// What this process and its actors do, and errors that no caller hears of.
  Log log = Log::standard_error(LogLevel::kInfo);
};

/// The actor runtime of one process: an I/O thread that never runs user code, and a thread per
/// hosted actor.
///
/// Created in main (or by a test; several may live in one process), before the actors and
/// references that use it, and destroyed after them: the destructor stops the actors, says goodbye
/// to peers, and fails what still waits with Error(kCancelled). Any thread, but not the I/O
/// thread's callbacks where a function says that it waits.
class System final {
 public:
  explicit System(SystemOptions options);
  ~System();
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// Lets other processes spawn actors of class T here. Before listen() and connect().
  template <ActorClass T>
  void provide() {
    provide(make_provider<T>());
  }
  /// As provide(), for actors that are also made of things of this process: `make` is called on the
  /// actor's thread with a Context& and what T::Arguments lists, and gives a std::unique_ptr<T>.
  template <ActorClass T, typename Make>
  void provide(Make make) {
    provide(make_provider<T>(std::move(make)));
  }
  /// Has T's interface compared when connecting, although it is only called from here. Optional:
  /// every call is checked too.
  template <ActorClass T>
  void use() {
    use(interface_version<T>());
  }

  /// Accepts connections from now on; returns the address with the port that was chosen. Throws
  /// Error(kUnavailable).
  Address listen(const Address& address);
  /// Connects, trying again until `within` has passed. Waits. `wanted`: all others refuse. Throws
  /// Error(kUnavailable), or the other side's refusal (kIncompatible and others).
  ProcessRef connect(const Address& address, Nanoseconds within = std::chrono::seconds(10),
                     Wanted wanted = {});

  ProcessRef self() const;
  const SystemOptions& options() const;
  /// How many actors live here whose owners are connected.
  std::size_t num_owned_actors() const;
  /// The processes that are connected now.
  std::vector<ProcessRef> peers() const;
  /// The calls of this process that wait for an answer, as far as a survey lists them.
  std::vector<WaitingCall> waiting_calls() const;
  /// For `weft why`: this process ends from here on, and why. The first one counts. Any thread.
  void note_end(const std::string& why);

  /// Hosts an actor here, on its own thread, that everybody can call by `name`. Waits for its
  /// constructor and throws its error.
  template <ActorClass T, typename... Arguments>
  ActorRef<T> host(const std::string& name, Arguments&&... arguments) {
    return ref<T>(
        host_actor(make_provider<T>(), name,
                   encode(ConstructorArgumentsOf<T>(std::forward<Arguments>(arguments)...))));
  }
  /// As host(), for an actor that is made of things of this process: `make` runs on the actor's
  /// thread.
  template <ActorClass T>
  ActorRef<T> host_made(const std::string& name, std::function<std::unique_ptr<T>(Context&)> make) {
    Provider provider{interface_version<T>(), kMethodTable<T>,
                      [make = std::move(make)](Context& context, std::span<const std::byte>) {
                        return internal::forget_class<T>(make(context));
                      }};
    return ref<T>(host_actor(std::move(provider), name, {}));
  }
  /// The actor that `process` hosts as `name`; nothing is sent.
  template <ActorClass T>
  ActorRef<T> named(const ProcessRef& process, const std::string& name) {
    return ref<T>(ActorAddress{process, named_actor(name), name});
  }
  template <ActorClass T>
  ActorRef<T> ref(ActorAddress address) {
    return ActorRef<T>(*this, std::make_shared<const ActorAddress>(std::move(address)));
  }

  /// Spawns one actor per rank, in row-major order, on the processes given, which must provide T.
  /// Waits until all are constructed. Throws the first error, naming the rank, after the others
  /// have been stopped.
  template <ActorClass T, typename... Arguments>
  ActorMesh<T> spawn_mesh(const std::string& name, const MeshShape& shape,
                          const std::vector<ProcessRef>& processes, Arguments&&... arguments) {
    auto actors =
        spawn_actors(interface_version<T>(), name, shape, processes,
                     encode(ConstructorArgumentsOf<T>(std::forward<Arguments>(arguments)...)));
    return ActorMesh<T>(MeshRef<T>(*this, name, shape, std::move(actors)));
  }

  /// The same mesh, where some ranks have other processes than before: actors are spawned on those;
  /// the others stay as they are, also when this throws. For a mesh some of whose processes died.
  template <ActorClass T, typename... Arguments>
  MeshRef<T> respawn_mesh(const MeshRef<T>& before, const std::vector<ProcessRef>& processes,
                          Arguments&&... arguments) {
    std::vector<std::shared_ptr<const ActorAddress>> kept;
    for (ActorAddress& actor : before.addresses())
      kept.push_back(std::make_shared<const ActorAddress>(std::move(actor)));
    auto actors = spawn_actors(
        interface_version<T>(), before.name(), before.shape(), processes,
        encode(ConstructorArgumentsOf<T>(std::forward<Arguments>(arguments)...)), std::move(kept));
    return MeshRef<T>(*this, before.name(), before.shape(), std::move(actors));
  }

  /// The actors of a mesh that another process has spawned and left (SystemOptions::keeps_orphans),
  /// from here on as if this one had. Those that are not there, or do not answer, are of no use,
  /// and can be respawned.
  template <ActorClass T>
  ActorMesh<T> take_over_mesh(const std::string& name, const MeshShape& shape,
                              const std::vector<ProcessRef>& processes) {
    return ActorMesh<T>(MeshRef<T>(
        *this, name, shape, take_over_actors(interface_version<T>(), name, shape, processes)));
  }

  /// Better evidence than a lost connection: every call that waits for `process`, and every later
  /// one, fails with `error` at once.
  void fail_peer(ProcessId process, const Error& error);
  /// What waits for `process` now fails with `error`, and is cancelled there; later calls go on.
  void fail_calls(ProcessId process, const Error& error);
  /// These run on the I/O thread and must not block: tell() and Poster::post() are all right. Set
  /// before listen() and connect(). A connected process is gone; its actors' callers have their
  /// errors.
  void on_peer_lost(std::function<void(const ProcessRef&, const Error&, Loss)> callback);
  /// A peer has been silent for `dead_after` and counts as lost from here on; on_peer_lost follows.
  void on_peer_silent(std::function<void(const ProcessRef&, Nanoseconds silence)> callback);
  /// A peer is suspect; or something has come from it again, without a time.
  void on_peer_quiet(
      std::function<void(const ProcessRef&, std::optional<Nanoseconds> silence)> callback);
  /// A connection ended without a goodbye: fail_peer() within `eof_grace` can say why.
  void on_peer_suspect(std::function<void(const ProcessRef&)> callback);
  /// Somebody was refused, and why; on the I/O thread, at most once in ten seconds.
  void on_refused(std::function<void(const std::string& text)> callback);

  /// The token that this process proves now.
  Secret token() const;
  /// Replaces it: others prove the new one from here on. Whoever is connected stays, and is told
  /// the new token, as those are that it is connected to, and so on; where others could read it on
  /// the way, it is not. The former one is taken for `former_for`, from those that are connected
  /// now and from `members`. Waits; not on the I/O thread.
  struct Replaced {
    std::vector<ProcessId> members;     ///< who may use the former one
    std::vector<std::string> told;      ///< names of those that were given the new one
    std::vector<std::string> not_told;  ///< as they are reached without TLS
  };
  Replaced replace_token(const Secret& next, Nanoseconds former_for,
                         const std::vector<ProcessId>& members);
  /// Before listen(): a token that was replaced before this process began.
  void take_former_token(const Secret& former, Nanoseconds within,
                         const std::vector<ProcessId>& members);

  /// Runs `callback` again and again, as long as the system lives.
  void every(Nanoseconds interval, std::function<void()> callback);
  /// Runs `callback` once, later.
  void after(Nanoseconds delay, std::function<void()> callback);

  // What the typed handles are made of.
  struct Method {
    const char* name;
    std::uint32_t index;
    std::uint64_t fingerprint;
    bool urgent;
  };
  std::shared_ptr<CallState> call(const std::shared_ptr<const ActorAddress>& target,
                                  const Method& method, Nanoseconds within,
                                  std::vector<std::byte> arguments);
  /// False if it cannot be sent at all.
  bool tell(const std::shared_ptr<const ActorAddress>& target, const Method& method,
            std::vector<std::byte> arguments);
  /// Ends when the actor has ended.
  std::shared_ptr<CallState> stop_actor(const std::shared_ptr<const ActorAddress>& target,
                                        Nanoseconds within);

  /// What the actor has given to Context::on_report(), from its process's I/O thread.
  std::shared_ptr<CallState> ask_report(const std::shared_ptr<const ActorAddress>& target,
                                        Nanoseconds within);

  /// What goes on in processes, from their I/O threads: `first`, which must be connected, asks the
  /// targets, and those what is behind them, over connections that exist. One answer for each
  /// process that is named, whether it has answered or not; all of it within request.within_ns.
  Future<std::vector<ProcessSurvey>> survey(const ProcessRef& first, const SurveyRequest& request,
                                            Nanoseconds within) {
    return future_of<std::vector<ProcessSurvey>>(ask_survey(first, request, within));
  }

  struct Impl;

 private:
  std::shared_ptr<CallState> ask_survey(const ProcessRef& first, const SurveyRequest& request,
                                        Nanoseconds within);
  void provide(Provider provider);
  void use(InterfaceVersion interface);
  std::shared_ptr<CallState> call_system(const std::shared_ptr<const ActorAddress>& target,
                                         std::uint32_t method, const char* name,
                                         Nanoseconds within);
  ActorAddress host_actor(Provider provider, const std::string& name,
                          std::vector<std::byte> arguments);
  std::vector<std::shared_ptr<const ActorAddress>> spawn_actors(
      const InterfaceVersion& interface, const std::string& name, const MeshShape& shape,
      const std::vector<ProcessRef>& processes, const std::vector<std::byte>& arguments,
      std::vector<std::shared_ptr<const ActorAddress>> kept = {});
  std::vector<std::shared_ptr<const ActorAddress>> take_over_actors(
      const InterfaceVersion& interface, const std::string& name, const MeshShape& shape,
      const std::vector<ProcessRef>& processes);
  std::shared_ptr<CallState> ask_for_actor(const InterfaceVersion& interface, const Place& place,
                                           const ProcessRef& process,
                                           std::vector<std::byte> arguments, bool takes_over,
                                           Nanoseconds within);

  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::actors

#include "actors/system/typed_calls.h"
