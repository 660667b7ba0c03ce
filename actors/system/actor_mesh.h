#pragma once

#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/map_run.h"
#include "actors/call/result_stream.h"
#include "actors/system/actor_ref.h"
#include "actors/system/directory.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// Handle of a mesh of actors, or of a slice of one: a plain value that keeps nothing alive, and
/// that travels like ActorRef. Results are in row-major order of its shape.
///
///   auto reports = mesh.call<&Trainer::step>(plan).get();               // of all, by rank
///   mesh.slice({{"data", 0}}).tell<&Trainer::log>("hello");
///   double loss = mesh.at({1, 0}).call<&Trainer::loss>().get();
///   for (auto&& [rank, report] : mesh.stream<&Trainer::step>(plan)) use(rank, report);
///   for (auto&& [item, score] : mesh.map<&Trainer::score>(texts)) use(item, score);
///   double all = mesh.reduce<&Trainer::loss>(sum).get();
///
/// From 32 actors on, call(), call_collect(), tell(), stream() and reduce() travel a tree of the
/// mesh's processes, of which each sends at most 16 messages.
///
/// Each use of an empty handle throws Error(kInvalidArgument). Any thread; the System must be
/// alive.
template <typename T>
class MeshRef final {
 public:
  using Addresses = std::vector<std::shared_ptr<const ActorAddress>>;
  /// Makes an empty handle.
  MeshRef() = default;
  MeshRef(System& system, std::string name, MeshShape shape, Addresses actors)
      : system_(&system),
        name_(std::move(name)),
        shape_(std::move(shape)),
        actors_(std::move(actors)) {}

  const std::string& name() const { return name_; }
  const MeshShape& shape() const { return shape_; }
  std::int64_t size() const { return actors_.size(); }
  explicit operator bool() const { return !actors_.empty(); }

  /// Returns the actors at a part of some axes. slice({{"data", 0}}) drops the axis;
  /// slice({{"data", 0, 2}}) keeps [0, 2) of it. The slice has the name of the mesh.
  MeshRef slice(const std::vector<AxisPart>& parts) const {
    System& of = system();
    const auto chosen = shape_.slice(parts);
    Addresses actors;
    for (const std::int64_t rank : chosen.ranks) actors.push_back(actors_[rank]);
    MeshRef part(of, name_, chosen.shape, std::move(actors));
    part.within_ = within_;
    return part;
  }
  ActorRef<T> at(const std::vector<std::int64_t>& coordinates) const {
    return rank(shape_.rank(coordinates));
  }
  ActorRef<T> rank(std::int64_t rank) const {
    System& of = system();
    (void)shape_.coordinates(rank);  // throws if the rank is out of range
    return ActorRef<T>(of, actors_[rank]).within(within_);
  }
  MeshRef within(Nanoseconds time) const {
    MeshRef copy = *this;
    copy.within_ = time;
    return copy;
  }
  std::vector<ActorAddress> addresses() const {
    std::vector<ActorAddress> list;
    for (const auto& actor : actors_) list.push_back(*actor);
    return list;
  }

  /// Calls all actors. The result is a vector by rank (nothing for void), or the first error; then
  /// the other calls are cancelled.
  template <auto Member, typename... Arguments>
  Future<typename AllOf<ResultOf<Member>>::Result> call(Arguments&&... arguments) const;
  /// Calls all actors. The result is, per rank, the actor's result or its error.
  template <auto Member, typename... Arguments>
  Future<std::vector<Outcome<ResultOf<Member>>>> call_collect(Arguments&&... arguments) const;
  /// Calls the only actor of a mesh of one. Throws Error(kInvalidArgument) if there are more.
  template <auto Member, typename... Arguments>
  Future<ResultOf<Member>> call_one(Arguments&&... arguments) const;
  /// Sends a one-way call to all actors; see ActorRef::tell().
  template <auto Member, typename... Arguments>
  void tell(Arguments&&... arguments) const;
  /// Like call(), with separate arguments for each rank: values of the only parameter, or tuples of
  /// all. Throws before the first call if one of them cannot be sent.
  template <auto Member, typename Argument>
  Future<typename AllOf<ResultOf<Member>>::Result> scatter(
      const std::vector<Argument>& per_rank) const;

  /// Calls all actors, as call_collect() does, but gives the results as they arrive: one per rank.
  /// Of a generator it gives the values of each rank in order, and an error at the end of a rank
  /// that fails.
  template <auto Member, typename... Arguments>
  ResultStream<ResultOf<Member>> stream(Arguments&&... arguments) const;
  /// Makes one call per item, each to the actor with the fewest unanswered calls of this map().
  /// `items`: a range of values of the only parameter, or of tuples of all. Gives one result per
  /// item, by its index, as they arrive.
  ///
  /// An item whose actor is lost, has ended or is stopped goes to another actor if it has not run,
  /// or if the method is idempotent; otherwise its result is the error. An item gets at most 5
  /// calls; restarts can repeat each of them. Lost actors get no more items; without others, the
  /// reason is the result of the remaining items.
  ///
  /// Encodes all items before the first call. Does not block: an item for which its actor has no
  /// room goes to another one or waits for the next result. Sends nothing while more than
  /// 2 * in_flight * size() results are untaken. within() holds for each call.
  template <auto Member, typename Items>
  ResultStream<ResultOf<Member>> map(Items&& items, MapOptions options = {}) const;
  /// Calls one actor: of two random ones, the one for which fewer calls of this process wait, or
  /// one that is not known to have died or ended.
  template <auto Member, typename... Arguments>
  Future<ResultOf<Member>> choose(Arguments&&... arguments) const;
  /// Calls all actors and combines their results, in an order that depends on the ranks only, so
  /// that two runs give the same bits. `operation`: sum, min, max, mean, or reduce_with<&T::f> if
  /// the method's endpoint lists it. The first error fails it; then the other calls are cancelled.
  template <auto Member, typename Operation, typename... Arguments>
  Future<ReducedOf<ResultOf<Member>, Operation>> reduce(Operation operation,
                                                        Arguments&&... arguments) const;

  /// Requests the reports of the actors (Context::on_report), per rank, or the errors. Their
  /// processes' I/O threads answer.
  template <typename Report>
  Future<std::vector<Outcome<Report>>> reports() const;

  /// Stops the actors, each as ActorRef::stop() does. Done when all have ended; fails with the
  /// first error.
  Future<void> stop() const;

 private:
  System& system() const {
    if (actors_.empty()) internal::throw_empty_handle("MeshRef");
    return *system_;
  }
  template <auto Member, typename... Arguments>
  std::vector<std::shared_ptr<CallState>> call_each(Arguments&&... arguments) const;

  friend struct weft::codec<MeshRef>;
  System* system_ = nullptr;
  std::string name_;
  MeshShape shape_;
  Addresses actors_;
  Nanoseconds within_ = kDefaultDeadline;
};

/// Owner of the actors of a mesh, which stop when it is destroyed. Move-only. Its ref() may be
/// copied.
///
/// With Lifetime::kCluster, or if IfExists::kUse found existing actors, it owns nothing: its
/// destructor leaves the actors, and stop() asks their owner to stop them.
///
/// Owner's thread only. Must not outlive its Cluster. The destructor waits for an attempt to
/// restart an actor: more than a minute if the head or a constructor does not answer. Then it stops
/// the children, up to 10 s for each name. Then it asks the actors to stop, and waits up to 2 s for
/// them unless this is an actor's thread.
template <typename T>
class ActorMesh final {
 public:
  explicit ActorMesh(MeshRef<T> mesh) : mesh_(std::move(mesh)) {}
  /// Makes a handle of actors that another process owns: its end does not stop them. `stop`: stops
  /// them by request, and blocks until they have ended.
  ActorMesh(MeshRef<T> mesh, std::function<void()> stop)
      : mesh_(std::move(mesh)), owned_(false), stop_elsewhere_(std::move(stop)) {}
  ~ActorMesh() { release(); }
  ActorMesh(ActorMesh&& other) noexcept
      : mesh_(std::move(other.mesh_)),
        owned_(std::exchange(other.owned_, false)),
        stop_elsewhere_(std::move(other.stop_elsewhere_)),
        on_stopping_(std::move(other.on_stopping_)),
        on_stopped_(std::move(other.on_stopped_)) {}
  ActorMesh& operator=(ActorMesh&& other) noexcept {
    if (this != &other) {
      release();
      mesh_ = std::move(other.mesh_);
      owned_ = std::exchange(other.owned_, false);
      stop_elsewhere_ = std::move(other.stop_elsewhere_);
      on_stopping_ = std::move(other.on_stopping_);
      on_stopped_ = std::move(other.on_stopped_);
    }
    return *this;
  }

  const MeshRef<T>& ref() const { return mesh_; }
  const std::string& name() const { return mesh_.name(); }
  const MeshShape& shape() const { return mesh_.shape(); }
  std::int64_t size() const { return mesh_.size(); }
  std::vector<ActorAddress> addresses() const { return mesh_.addresses(); }
  MeshRef<T> slice(const std::vector<AxisPart>& parts) const { return mesh_.slice(parts); }
  ActorRef<T> at(const std::vector<std::int64_t>& coordinates) const {
    return mesh_.at(coordinates);
  }
  ActorRef<T> rank(std::int64_t rank) const { return mesh_.rank(rank); }
  MeshRef<T> within(Nanoseconds time) const { return mesh_.within(time); }

  template <auto Member, typename... Arguments>
  auto call(Arguments&&... arguments) const {
    return mesh_.template call<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename... Arguments>
  auto call_collect(Arguments&&... arguments) const {
    return mesh_.template call_collect<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename... Arguments>
  auto call_one(Arguments&&... arguments) const {
    return mesh_.template call_one<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename... Arguments>
  void tell(Arguments&&... arguments) const {
    mesh_.template tell<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename Argument>
  auto scatter(const std::vector<Argument>& per_rank) const {
    return mesh_.template scatter<Member>(per_rank);
  }
  template <auto Member, typename... Arguments>
  auto stream(Arguments&&... arguments) const {
    return mesh_.template stream<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename Items>
  auto map(Items&& items, MapOptions options = {}) const {
    return mesh_.template map<Member>(std::forward<Items>(items), options);
  }
  template <auto Member, typename... Arguments>
  auto choose(Arguments&&... arguments) const {
    return mesh_.template choose<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename Operation, typename... Arguments>
  auto reduce(Operation operation, Arguments&&... arguments) const {
    return mesh_.template reduce<Member>(operation, std::forward<Arguments>(arguments)...);
  }

  /// Stops the actors and blocks until they have ended; on an actor's thread does not block. Throws
  /// Error(kDeadlineExceeded) if one has not ended.
  void stop() {
    if (const auto elsewhere = std::exchange(stop_elsewhere_, nullptr)) return elsewhere();
    if (!std::exchange(owned_, false)) return;
    const auto tell = std::exchange(on_stopped_, nullptr);
    if (const auto stopping = std::exchange(on_stopping_, nullptr)) stopping();
    try {
      stop_actors(mesh_);
    } catch (...) {
      if (tell) tell();
      throw;
    }
    if (tell) tell();
  }
  /// Releases ownership. The actors run on, with their name, policy and resources, until the
  /// process that spawned them ends.
  MeshRef<T> detach() && {
    owned_ = false;
    return mesh_;
  }

  // For owners that recover meshes themselves.

  /// Runs `callback` before the actors are stopped, e.g. to end restarts.
  void on_stopping(std::function<void()> callback) { on_stopping_ = std::move(callback); }
  /// Runs `callback` once the actors have been stopped, by stop() or by the destructor, e.g. to
  /// return their processes.
  void on_stopped(std::function<void()> callback) { on_stopped_ = std::move(callback); }
  /// Replaces the actors by those that System::respawn_mesh() returned.
  void renew(MeshRef<T> mesh) { mesh_ = std::move(mesh); }

 private:
  static void stop_actors(const MeshRef<T>& mesh) {
    auto stopping = mesh.stop();
    if (on_actor_thread()) return;
    const CallFrame* const handler = blocking_call();
    try {
      stopping.get();
    } catch (const Error& error) {
      // The actors of a process that cannot be reached end with it, or with its connection.
      if (error.code() == ErrorCode::kDeadlineExceeded ||
          error.code() == ErrorCode::kFailedPrecondition ||
          (handler != nullptr && handler->cancelled()))
        throw;
    }
  }
  void release() noexcept {
    if (!std::exchange(owned_, false)) return;
    if (on_stopping_) on_stopping_();
    try {
      stop_actors(mesh_.within(std::chrono::seconds(2)));
    } catch (const Error&) {
      // A destructor cannot report this. The actors end with their process or its connection.
    }
    if (on_stopped_) on_stopped_();
  }

  MeshRef<T> mesh_;
  bool owned_ = true;
  std::function<void()> stop_elsewhere_;
  std::function<void()> on_stopping_;
  std::function<void()> on_stopped_;
};

/// Owner of one actor, which stops when it is destroyed; see ActorMesh. Move-only. Its ref() may be
/// copied and sent.
template <typename T>
class OwnedActor final {
 public:
  /// `mesh`: a mesh of one.
  explicit OwnedActor(ActorMesh<T> mesh) : mesh_(std::move(mesh)) {}

  ActorRef<T> ref() const { return mesh_.rank(0); }
  const std::string& name() const { return mesh_.name(); }
  ActorRef<T> within(Nanoseconds time) const { return ref().within(time); }
  template <auto Member, typename... Arguments>
  auto call(Arguments&&... arguments) const {
    return ref().template call<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename... Arguments>
  auto stream(Arguments&&... arguments) const {
    return ref().template stream<Member>(std::forward<Arguments>(arguments)...);
  }
  template <auto Member, typename... Arguments>
  bool tell(Arguments&&... arguments) const {
    return ref().template tell<Member>(std::forward<Arguments>(arguments)...);
  }
  /// Stops the actor and blocks until it has ended.
  void stop() { mesh_.stop(); }

 private:
  ActorMesh<T> mesh_;
};

namespace internal {

/// Returns the handle that a call of the process's directory has found. Throws Error(kIncompatible)
/// for actors of another class.
template <typename T>
MeshRef<T> take_found(CallState& call);
template <typename T>
MeshRef<T> handle_of_found(System& system, NamedActors found);
/// Returns the only actor of a mesh. Throws Error(kInvalidArgument) if there are several.
template <typename T>
ActorRef<T> only_rank(const MeshRef<T>& mesh) {
  if (mesh.size() == 1) return mesh.rank(0);
  throw_error(ErrorCode::kInvalidArgument,
              "'{}' is a mesh of {} actors ({}); find it with find_mesh()", mesh.name(),
              mesh.size(), to_string(mesh.shape()));
}

}  // namespace internal

}  // namespace weft::actors

/// Codec of handles of meshes and slices; see the codec of ActorRef.
template <typename T>
struct weft::codec<weft::actors::MeshRef<T>> {
  using Ref = actors::MeshRef<T>;
  static constexpr std::size_t kMinBytes = 1;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("mesh handle");
  static void write(ByteWriter& writer, const Ref& mesh) {
    write_value(writer, static_cast<bool>(mesh));
    if (!mesh) return;
    write_value(writer, actors::interface_version<T>());
    write_value(writer, mesh.name_);
    write_value(writer, mesh.shape_);
    writer.write_count(mesh.actors_.size());
    for (const auto& actor : mesh.actors_)
      write_value(writer, actors::internal::address_for_peers(*mesh.system_, *actor));
  }
  static Ref read(ByteReader& reader) {
    if (!read_value<bool>(reader)) return Ref();
    const auto interface = read_value<actors::InterfaceVersion>(reader);
    auto name = read_value<std::string>(reader);
    actors::internal::check_handle(interface, actors::interface_version<T>(), name);
    auto shape = read_value<MeshShape>(reader);
    typename Ref::Addresses actors;
    for (auto& address : read_value<std::vector<actors::ActorAddress>>(reader))
      actors.push_back(std::make_shared<const actors::ActorAddress>(std::move(address)));
    shape.check();
    if (shape.size() != std::ssize(actors))
      reader.fail("a mesh with more or fewer actors than ranks");
    return Ref(actors::internal::system_of(reader), std::move(name), std::move(shape),
               std::move(actors));
  }
};
