#include "actors/head/reservations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

/// Name whose epochs number the reservations. No mesh can have it.
std::string epoch_name(const std::string& name) { return "reservation:" + name; }

bool is_same(const ReservationRequest& a, const ReservationRequest& b) {
  return a.bundles == b.bundles && a.hosts == b.hosts && a.strategy == b.strategy &&
         a.labels == b.labels && a.meshes == b.meshes && a.spares == b.spares;
}

/// Throws Error(kInvalidArgument) if the bundles are not the ranks of request.meshes.
void check_meshes(const ReservationRequest& request) {
  std::size_t ranks = 0;
  for (const WantedMesh& mesh : request.meshes) {
    check_name("the name of a mesh", mesh.name);
    mesh.shape.check();
    ranks += static_cast<std::size_t>(mesh.shape.size());
  }
  if (ranks == request.bundles.size() &&
      std::ranges::all_of(request.bundles, [](const Resources& bundle) {
        return bundle == Resources{.devices = 1};
      }))
    return;
  throw_error(ErrorCode::kInvalidArgument,
              "reservation '{}' is for meshes of {} ranks, and has {} bundles; give a bundle of "
              "one device for each rank",
              request.name, ranks, request.bundles.size());
}

std::string needs_text(const ReservationRequest& request) {
  std::vector<Amounts> needs;
  for (const Resources& bundle : request.bundles) needs.push_back(amounts_of("", bundle));
  return to_string(needs);
}

std::string host_list(const std::vector<BundlePlace>& places) {
  std::vector<std::string> hosts;
  for (const BundlePlace& place : places)
    if (!place.host.empty() && std::ranges::find(hosts, place.host) == hosts.end())
      hosts.push_back(place.host);
  return hosts.empty() ? "no host" : fmt::format("{}", fmt::join(hosts, ", "));
}

}  // namespace

class Reservations::Waiting final {
 public:
  Waiting(Reservations& all, const ReservationRequest& wanted, ProcessId caller)
      : request(wanted),
        owner(caller),
        what(all.describe(wanted, caller)),
        turn(all.next_turn_++),
        changed(all.context_.make_wakeup()),
        all_(all) {
    all_.waiting_.emplace(turn, this);
  }
  ~Waiting() {
    all_.waiting_.erase(turn);
    all_.notify_all();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Returns the hosts that could take a bundle; none if the present hosts could not hold all
  /// bundles. It waits for other hosts then, and holds nobody back.
  const std::set<std::string>& hosts();
  /// Returns places, or nothing if there is no room.
  std::optional<std::vector<BundlePlace>> find_places();
  /// Returns "2 of 4 bundles fit now".
  const std::string& room();

  const ReservationRequest& request;
  const ProcessId owner;
  const std::string what;  // "reservation room of run x"
  const std::uint64_t turn;
  const Wakeup changed;
  bool told = false;  // True once an event says that it waits.

 private:
  Reservations& all_;
  // Results, and the counters of the allocator for which they are right.
  std::set<std::string> hosts_;
  std::string room_;
  std::optional<std::uint64_t> hosts_at_, full_at_, room_at_;
};

const std::set<std::string>& Reservations::Waiting::hosts() {
  const ResourceAllocator& resources = all_.resources_;
  if (std::exchange(hosts_at_, resources.host_changes()) == resources.host_changes()) return hosts_;
  hosts_.clear();
  try {
    if (resources.could_fit(request)) hosts_ = resources.candidates(request);
  } catch (const Error&) {
    // A host of its list was removed.
  }
  return hosts_;
}

std::optional<std::vector<BundlePlace>> Reservations::Waiting::find_places() {
  // There is no more room until something is freed.
  if (full_at_ == all_.resources_.changes()) return std::nullopt;
  try {
    if (auto places = all_.resources_.find_bundles(request)) return places;
  } catch (const Error&) {
    // A host of its list is away, leaves or was removed.
  }
  full_at_ = all_.resources_.changes();
  return std::nullopt;
}

const std::string& Reservations::Waiting::room() {
  const ResourceAllocator& resources = all_.resources_;
  if (std::exchange(room_at_, resources.revision()) == resources.revision()) return room_;
  try {
    room_ = fmt::format("{} of {} bundles fit now{}", resources.num_fitting(request),
                        request.bundles.size(),
                        hosts().empty() ? ", and the present hosts cannot hold all" : "");
  } catch (const Error& error) {
    room_ = error.message();
  }
  return room_;
}

void Reservations::read_rows() {
  for (const auto& [name, bytes] : store_.rows(StateStore::Table::kReservations)) {
    Reservation reservation;
    static_cast<ReservationRow&>(reservation) = decode<ReservationRow>(bytes);
    check_row(reservation);
    if (!owners_.registration(reservation.owner)) {
      store_.erase(StateStore::Table::kReservations, name);
      continue;
    }
    const MeshKey key = MeshKey::of_text(name);
    resources_.reserve(key, reservation.request, reservation.places);
    reservations_.emplace(key, std::move(reservation));
  }
}

void Reservations::save(const MeshKey& key, const Reservation& reservation) {
  store_.put(StateStore::Table::kReservations, key.text(),
             encode(static_cast<const ReservationRow&>(reservation)));
}

void Reservations::check(const ReservationRequest& request) {
  check_name("the name of a reservation", request.name);
  const std::string what = fmt::format("reservation '{}'", request.name);
  if (!request.meshes.empty()) return check_meshes(request);
  if (request.bundles.empty() || request.bundles.size() > kMostBundles)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} bundles; expected 1 to {}", what,
                request.bundles.size(), kMostBundles);
  for (const Resources& bundle : request.bundles)
    if (amounts_of(what, bundle).empty())
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has an empty bundle; each bundle needs some resource, such as {{.cpus = 1}}",
                  what);
}

std::string Reservations::describe(const ReservationRequest& request, ProcessId owner) const {
  return fmt::format("reservation {} of {}", request.name, owners_.name_of(owner));
}

std::map<MeshKey, Reservations::Reservation>::iterator Reservations::find(ProcessId owner,
                                                                          const std::string& name) {
  return std::ranges::find_if(reservations_, [&](const auto& of) {
    return of.first.name == name && of.second.owner == owner;
  });
}

const MeshKey* Reservations::find_same(ProcessId owner, const ReservationRequest& wanted) {
  const auto had = find(owner, wanted.name);
  if (had == reservations_.end()) return nullptr;
  if (is_same(had->second.request, wanted)) {
    had->second.asked_for = true;
    replace_lost(had->first, had->second);
    return &had->first;
  }
  if (!had->second.inherited || had->second.asked_for)
    throw_error(ErrorCode::kAlreadyExists,
                "{} has another reservation '{}' already: {}; release it first, or take another "
                "name",
                owners_.name_of(owner), wanted.name, needs_text(had->second.request));
  end(had, "is released: the next driver of its run asks for another one");
  return nullptr;
}

task<ReservedBundles> Reservations::reserve(ProcessId owner, ReservationRequest request) {
  const auto registration = owners_.registration(owner);
  if (!registration)
    throw_error(ErrorCode::kFailedPrecondition,
                "only a program that is registered with the head may reserve resources; connect it "
                "with actors::Cluster");
  check(request);
  if (const MeshKey* const had = find_same(owner, request))
    co_return ReservedBundles{*had, reservations_.at(*had).places};
  if (!resources_.could_fit(request)) throw Error(resources_.shortage(request));
  if (num_waiting(owner) >= kMostWaiting)
    throw_error(ErrorCode::kResourceExhausted,
                "{} waits for {} reservations already; wait for fewer at a time, or reserve more "
                "bundles at once",
                owners_.name_of(owner), kMostWaiting);
  const TimePoint give_up =
      clock_.now() + std::clamp(Nanoseconds(request.within_ns), Nanoseconds::zero(),
                                ReservationRequest::kLongestWait);
  Waiting waiting(*this, request, owner);
  while (true) {
    if (auto places = find_places(waiting)) co_return grant(waiting, std::move(*places));
    // A run replaces hosts itself.
    if (!request.meshes.empty() && waiting.hosts().empty())
      throw Error(resources_.shortage(request));
    const Nanoseconds left = give_up - clock_.now();
    if (left <= Nanoseconds::zero()) fail_waiting(waiting);
    if (!std::exchange(waiting.told, true))
      log_.record(
          fmt::format("{} waits for {}: {}", waiting.what, needs_text(request), reason(waiting)));
    auto change = waiting.changed.wait_for(left);
    co_await change;
    if (owners_.registration(owner) != registration)
      throw_error(ErrorCode::kCancelled, "the driver that asked for reservation '{}' disconnected",
                  request.name);
    // Another call of that name may have been granted meanwhile.
    if (const MeshKey* const had = find_same(owner, request))
      co_return ReservedBundles{*had, reservations_.at(*had).places};
  }
}

std::size_t Reservations::num_waiting(ProcessId owner) const {
  return std::ranges::count_if(waiting_, [&](const auto& of) { return of.second->owner == owner; });
}

Reservations::Waiting* Reservations::ahead_of(Waiting& waiting) const {
  if (waiting_.begin()->second == &waiting) return nullptr;
  const std::set<std::string>& wanted = waiting.hosts();
  const auto is_wanted = [&](const std::string& host) { return wanted.contains(host); };
  for (const auto& [turn, other] : waiting_) {
    if (other == &waiting) return nullptr;
    if (std::ranges::any_of(other->hosts(), is_wanted)) return other;
  }
  return nullptr;
}

std::optional<std::vector<BundlePlace>> Reservations::find_places(Waiting& waiting) {
  if (std::exchange(replaced_change_, resources_.changes()) != resources_.changes()) replace_lost();
  if (ahead_of(waiting) != nullptr) return std::nullopt;
  return waiting.find_places();
}

std::string Reservations::reason(Waiting& waiting) const {
  if (const Waiting* const other = ahead_of(waiting))
    return fmt::format("{} came first and needs the same hosts", other->what);
  return waiting.room();
}

void Reservations::fail_waiting(Waiting& waiting) const {
  const ReservationRequest& request = waiting.request;
  const double seconds = static_cast<double>(request.within_ns) / 1e9;
  std::string why = reason(waiting);
  if (ahead_of(waiting) == nullptr) {
    try {
      why = resources_.shortage(request).message();
    } catch (const Error& error) {
      why = error.message();
    }
  }
  throw_error(ErrorCode::kDeadlineExceeded, "reservation '{}' was not granted within {:.1f} s: {}",
              request.name, seconds, why);
}

ReservedBundles Reservations::grant(const Waiting& waiting, std::vector<BundlePlace> places) {
  const ReservationRequest& request = waiting.request;
  const MeshKey key{request.name, store_.next_mesh_epoch(epoch_name(request.name))};
  Reservation& reservation = reservations_[key];
  reservation.request = request;
  reservation.owner = waiting.owner;
  reservation.places = std::move(places);
  resources_.reserve(key, request, reservation.places);
  save(key, reservation);
  store_.sync_to_disk();
  // The events of the meshes follow.
  if (request.meshes.empty() || waiting.told)
    log_.record(fmt::format("{} is granted: {} on {}", describe(request, waiting.owner),
                            needs_text(request), host_list(reservation.places)));
  return {key, reservation.places};
}

void Reservations::end(std::map<MeshKey, Reservation>::iterator reservation,
                       const std::string& how) {
  const MeshKey key = reservation->first;
  const std::string what = describe(reservation->second.request, reservation->second.owner);
  const bool is_used_up =
      !reservation->second.request.meshes.empty() &&
      std::ranges::none_of(resources_.bundle_users(key), &std::set<std::string>::empty);
  reservations_.erase(reservation);
  resources_.release(key);
  store_.erase(StateStore::Table::kReservations, key.text());
  store_.flush();
  if (!is_used_up) log_.record(fmt::format("{} {}", what, how));
}

void Reservations::release(const MeshKey& key, ProcessId caller) {
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return;
  if (found->second.owner != caller)
    throw_error(ErrorCode::kFailedPrecondition,
                "reservation '{}' is released by its owner only, {}", key.name,
                owners_.name_of(found->second.owner));
  end(found, "is released");
}

void Reservations::prepare(const MeshRequest& request, ProcessId owner) {
  const MeshKey& key = request.reservation;
  if (key.name.empty()) return;
  if (!request.places.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "mesh '{}' names places and reservation '{}'; give one of both", request.mesh,
                key.name);
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return;
  if (found->second.owner != owner)
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh '{}': reservation '{}' belongs to another program, {}", request.mesh,
                key.name, owners_.name_of(found->second.owner));
  replace_lost(key, found->second);
}

void Reservations::replace_lost(const MeshKey& key, Reservation& reservation) {
  const bool moved = resources_.replace_lost(key, reservation.request);
  std::vector<BundlePlace> places = resources_.bundle_places(key);
  if (places == reservation.places) return;
  reservation.places = std::move(places);
  save(key, reservation);
  store_.flush();
  if (moved)
    log_.record(fmt::format("{}: bundles have moved; it is on {} now",
                            describe(reservation.request, reservation.owner),
                            host_list(reservation.places)));
}

void Reservations::replace_lost() {
  for (auto& [key, reservation] : reservations_) replace_lost(key, reservation);
}

void Reservations::notify_all() {
  for (const auto& [turn, waiting] : waiting_) waiting->changed.notify();
}

void Reservations::notify_waiters() {
  if (std::exchange(notified_change_, resources_.changes()) != resources_.changes()) notify_all();
}

bool Reservations::owns_any(ProcessId owner) const {
  return std::ranges::any_of(reservations_,
                             [&](const auto& of) { return of.second.owner == owner; });
}

void Reservations::transfer(ProcessId from, ProcessId to) {
  std::vector<MeshKey> of_meshes;
  for (auto& [key, reservation] : reservations_) {
    if (reservation.owner != from) continue;
    if (!reservation.request.meshes.empty()) {
      of_meshes.push_back(key);
      continue;
    }
    reservation.owner = to;
    reservation.inherited = true;
    reservation.asked_for = false;
    save(key, reservation);
  }
  release_all(of_meshes);
}

void Reservations::release_unlisted(ProcessId owner, const std::vector<MeshKey>& held) {
  std::vector<MeshKey> unlisted;
  for (auto& [key, reservation] : reservations_) {
    if (reservation.owner != owner) continue;
    // The answer may have been lost with the connection.
    reservation.asked_for = false;
    const bool is_listed = std::ranges::find(held, key) != held.end();
    if (!is_listed && !reservation.inherited) unlisted.push_back(key);
    if (is_listed && std::exchange(reservation.inherited, false)) save(key, reservation);
  }
  release_all(unlisted);
}

void Reservations::release_all_of(ProcessId owner) {
  std::vector<MeshKey> owned;
  for (const auto& [key, reservation] : reservations_)
    if (reservation.owner == owner) owned.push_back(key);
  release_all(owned);
}

void Reservations::release_all(const std::vector<MeshKey>& keys) {
  for (const MeshKey& key : keys) end(reservations_.find(key), "is released");
  // Calls of an owner that has ended, or registered again, end.
  notify_all();
}

std::vector<ReservationStatus> Reservations::statuses() const {
  std::vector<ReservationStatus> list;
  for (const auto& [turn, waiting] : waiting_)
    list.push_back({waiting->request.name,
                    owners_.name_of(waiting->owner),
                    needs_text(waiting->request),
                    true,
                    reason(*waiting),
                    {},
                    {}});
  for (const auto& [key, reservation] : reservations_) {
    ReservationStatus& status = list.emplace_back();
    status.name = key.name;
    status.owner = owners_.name_of(reservation.owner);
    status.needs = needs_text(reservation.request);
    status.places = resources_.bundle_places(key);
    for (const std::set<std::string>& users : resources_.bundle_users(key))
      status.bundle_users.push_back(fmt::format("{}", fmt::join(users, ", ")));
    if (const auto lost = std::ranges::count(status.places, "", &BundlePlace::host); lost > 0)
      status.problem =
          fmt::format("{} of {} bundles have lost their host, and the others have no room", lost,
                      status.places.size());
  }
  return list;
}

void Reservations::add_device_users(HostStatus& host) const {
  for (const auto& [key, reservation] : reservations_) {
    const std::vector<BundlePlace> places = resources_.bundle_places(key);
    for (std::size_t bundle = 0; bundle < places.size(); ++bundle) {
      if (places[bundle].host != host.offer.name) continue;
      for (const std::uint32_t device : places[bundle].devices)
        if (device < host.device_users.size() && host.device_users[device].empty())
          host.device_users[device] = fmt::format(
              "{}, bundle {}", describe(reservation.request, reservation.owner), bundle);
    }
  }
}

}  // namespace weft::actors
