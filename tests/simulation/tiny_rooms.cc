#include "tests/simulation/tiny_rooms.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>

#include "actors/head/head.h"
#include "core/base/error.h"

namespace weft::simulation {
namespace {

constexpr int kRooms = 3;
constexpr std::size_t kTenantRestarts = 1000;
/// Time in which the resources of a run that has ended are free, its driver dead or restarted.
constexpr auto kSeatsFreeWithin = std::chrono::seconds(40);
/// Time in which a waiting reservation is granted after another one was released.
constexpr auto kGrantedWithin = std::chrono::seconds(5);

/// Actor in a reservation.
class TinyTenant final {
 public:
  using Arguments = std::tuple<>;
  explicit TinyTenant(actors::Context& context) : context_(context) {}
  std::int64_t rank() const { return context_.place().rank; }

  static constexpr auto endpoints =
      actors::interface<"simulation.tenant", 1>(actors::on<&TinyTenant::rank>("rank"));

 private:
  actors::Context& context_;
};

actors::Resources seats(double number) { return {.custom = {{kSeat, number}}}; }

double seats_of(const actors::Resources& resources) {
  const auto found = resources.custom.find(kSeat);
  return found == resources.custom.end() ? 0 : found->second;
}

/// Returns whether bundles fit on so many empty hosts, by trying all places.
bool fits(std::span<const actors::Resources> bundles, std::vector<double> free) {
  if (bundles.empty()) return true;
  for (double& host : free) {
    const double needs = seats_of(bundles.front());
    if (needs > host) continue;
    host -= needs;
    if (fits(bundles.subspan(1), free)) return true;
    host += needs;
  }
  return false;
}

}  // namespace

/// Reservation of this driver, and the actors in it.
struct TinyRooms::Room {
  std::string name;
  std::vector<actors::Resources> bundles = {};
  std::optional<actors::Reservation> reservation = {};
  std::optional<actors::ActorMesh<TinyTenant>> tenants = {};
};

TinyRooms::TinyRooms(RoomRecords& records, ClusterWorld& world, actors::Cluster& cluster,
                     const Options& options)
    : records_(records), world_(world), cluster_(cluster), options_(options) {
  for (int i = 0; i < kRooms; ++i) {
    rooms_.push_back(std::make_unique<Room>());
    rooms_.back()->name = fmt::format("room{}", i);
  }
  thread_ = Thread("rooms", ThreadPriority::kOrdinary, [this] { run(); });
}

TinyRooms::~TinyRooms() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TinyRooms::provide(actors::AppMain& app) {
  app.provide<TinyTenant>(
      [](actors::Context& context) { return std::make_unique<TinyTenant>(context); });
}

void TinyRooms::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    if (world_.chance(0.1)) ask_too_much();
    else act(*rooms_[world_.random(0, kRooms - 1)]);
    check_accounts();
    lock.lock();
    stopped_.wait_for(
        lock, world_.random_time(std::chrono::milliseconds(1), std::chrono::milliseconds(50)),
        [this] { return stopping_; });
  }
}

void TinyRooms::act(Room& room) {
  try {
    if (room.reservation) leave(room);
    else enter(room);
  } catch (const Error& error) {
    // A reservation waits for others, or is larger than the hosts, or a fault is the cause.
    const ErrorCode expected =
        can_fit(room) ? ErrorCode::kDeadlineExceeded : ErrorCode::kResourceExhausted;
    if (!options_.is_disturbed && error.code() != expected)
      violation(fmt::format("{} fails: {}", room.name, error.message()));
  }
}

void TinyRooms::enter(Room& room) {
  room.bundles.clear();
  for (std::int64_t i = world_.random(1, 3); i > 0; --i)
    room.bundles.push_back(seats(static_cast<double>(world_.random(1, 2 * kSeats - 2)) / 2));
  const auto strategy = world_.chance(0.5) ? actors::spread() : actors::pack();
  room.reservation.emplace(cluster_.reserve(
      room.name, room.bundles, strategy,
      world_.chance(0.5) ? Nanoseconds::zero()
                         : world_.random_time({}, std::chrono::milliseconds(500))));
  if (!can_fit(room)) violation(room.name + " is granted, and the hosts cannot hold it");
  if (options_.plant == Plant::kReleasesTwice && world_.chance(0.5))
    cluster_.head().tell<&actors::Head::release_reservation>(room.reservation->place().reservation);
  if (!world_.chance(0.5)) return;
  const auto ranks = static_cast<std::int64_t>(room.bundles.size());
  room.tenants.emplace(cluster_.spawn<TinyTenant>(
      fmt::format("tenants-{}", ++records_.tenants), {{"tenant", ranks}},
      actors::SpawnOptions{
          .place = room.reservation->place(), .needs = seats(0.5), .restarts = kTenantRestarts}));
}

bool TinyRooms::can_fit(const Room& room) const {
  return fits(room.bundles, std::vector<double>(options_.hosts, kSeats));
}

void TinyRooms::leave(Room& room) {
  // Tenants keep what they have of a reservation that is released.
  if (world_.chance(0.5)) room.tenants.reset();
  room.reservation.reset();
  room.tenants.reset();
}

void TinyRooms::ask_too_much() {
  try {
    cluster_.reserve("palace", {seats(kSeats + 0.5)}, {}, std::chrono::milliseconds(100));
    violation("a reservation is granted that no host can hold");
  } catch (const Error& error) {
    if (!options_.is_disturbed && error.code() != ErrorCode::kResourceExhausted)
      violation("a reservation that no host can hold is not refused: " + error.message());
  }
}

void TinyRooms::check_accounts() {
  actors::ClusterStatus status;
  try {
    status = cluster_.status();
  } catch (const Error&) {
    return;  // the head is away
  }
  for (const actors::HostStatus& host : status.hosts)
    if (seats_of(host.used) > seats_of(host.total))
      violation(fmt::format("by the head's account, {} has granted {} of {} seats", host.offer.name,
                            seats_of(host.used), seats_of(host.total)));
  std::map<std::string, double> used;
  for (const auto& room : rooms_) {
    if (!room->reservation) continue;
    // A bundle may have moved since it was granted.
    std::vector<std::string> hosts;
    for (const actors::ReservationStatus& known : status.reservations)
      if (known.name == room->name && known.owner.ends_with(options_.run) && !known.waiting)
        for (const actors::BundlePlace& place : known.places) hosts.push_back(place.host);
    const bool is_known = hosts.size() == room->bundles.size();
    if (!is_known && !options_.may_forget)
      violation(fmt::format("the head has no record of {}, which was granted", room->name));
    // A head that has forgotten a reservation grants its seats again.
    if (!is_known && options_.may_forget) continue;
    if (!is_known) hosts = room->reservation->hosts();
    for (std::size_t i = 0; i < hosts.size(); ++i)
      if (!hosts[i].empty()) used[hosts[i]] += seats_of(room->bundles[i]);
  }
  for (const auto& [host, number] : used)
    if (number > kSeats)
      violation(fmt::format("by the driver's account, {} has granted {} of {} seats", host, number,
                            kSeats));
}

void TinyRooms::finish() {
  if (!thread_.joinable()) return;  // called again after a recovery
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  for (const auto& room : rooms_) leave(*room);
  if (options_.is_disturbed) return;
  check_all_free();
}

void TinyRooms::check_all_free() {
  const std::vector<actors::Resources> all(options_.hosts, seats(kSeats));
  try {
    std::optional<actors::Reservation> house(
        cluster_.reserve("house", all, actors::strict_spread(), kSeatsFreeWithin));
    std::optional<Error> failure;
    Thread next("next", ThreadPriority::kOrdinary, [&] {
      try {
        cluster_.reserve("next", all, actors::strict_spread(), kSeatsFreeWithin);
      } catch (const Error& error) {
        failure = error;
      }
    });
    const auto is_waiting = [&] {
      const auto status = cluster_.status();
      return std::ranges::any_of(status.reservations, [](const auto& each) {
        return each.name == "next" && each.waiting;
      });
    };
    const SteadyClock clock;
    const TimePoint asked = clock.now();
    while (!is_waiting() && clock.now() < asked + kGrantedWithin) {
    }
    const TimePoint released = clock.now();
    house.reset();
    next.join();
    if (failure) violation("a reservation that waits fails: " + failure->message());
    else if (clock.now() > released + kGrantedWithin)
      violation("a reservation that waits is granted late");
  } catch (const Error& error) {
    violation("a run cannot reserve all seats at its end: " + error.message());
  }
}

}  // namespace weft::simulation
