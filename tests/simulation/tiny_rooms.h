#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"
#include "core/base/thread.h"
#include "tests/simulation/cluster_world.h"
#include "tests/simulation/plant.h"

namespace weft::simulation {

/// Resource of each host, and its amount there.
inline constexpr const char* kSeat = "seat";
inline constexpr std::int64_t kSeats = 4;

/// Reservations of the runs of a world, as the simulation counts them.
struct RoomRecords {
  std::uint64_t tenants = 0;  ///< Meshes that were spawned in reservations so far.
  std::vector<std::string> violations;
};

/// Reservations that a thread of a driver makes, uses for actors and releases beside the training.
/// Checks that
///   - no host grants more of a resource than it has, by the head's account and by that of the
///     driver, and the head has all reservations of the driver;
///   - a reservation that is larger than the hosts is refused;
///   - at the end of an undisturbed run, all resources are free, also those of former runs, and a
///     reservation that waits is granted when another one is released.
class TinyRooms final {
 public:
  struct Options {
    Plant plant = Plant::kNone;
    std::string run;           ///< Name of the run, with which that of the owner ends.
    std::size_t hosts = 0;     ///< Number of hosts with seats.
    const bool& is_disturbed;  ///< True while faults may happen or have effects.
    const bool& may_forget;    ///< True if the head may have lost what it has saved.
  };
  TinyRooms(RoomRecords& records, ClusterWorld& world, actors::Cluster& cluster,
            const Options& options);
  ~TinyRooms();
  TinyRooms(const TinyRooms&) = delete;
  TinyRooms& operator=(const TinyRooms&) = delete;

  /// Ends the thread, releases all reservations, and checks that nothing is left.
  void finish();

  /// Lets the processes of `app` host the actors.
  static void provide(actors::AppMain& app);

 private:
  struct Room;
  void run();
  /// Reserves, or releases what it has reserved.
  void act(Room& room);
  void enter(Room& room);
  void leave(Room& room);
  /// Returns whether the hosts could hold a reservation if they were free.
  bool can_fit(const Room& room) const;
  /// Asks for more than a host has.
  void ask_too_much();
  /// Compares the head's account with that of this driver.
  void check_accounts();
  void check_all_free();
  void violation(const std::string& what) { records_.violations.push_back(what); }

  RoomRecords& records_;
  ClusterWorld& world_;
  actors::Cluster& cluster_;
  const Options options_;
  std::vector<std::unique_ptr<Room>> rooms_;
  Mutex mutex_;
  Condition stopped_;
  bool stopping_ = false;  // guarded by mutex_
  Thread thread_;
};

}  // namespace weft::simulation
