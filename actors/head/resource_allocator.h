#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/amounts.h"
#include "actors/head/bundle_placement.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/run_placement.h"

namespace weft::actors {

/// Assignment of the resources of hosts to meshes and reservations, and search for room for new
/// ones. Resources count from the assignment until they are freed; nothing measures their use.
/// Pure. One thread at a time.
class ResourceAllocator {
 public:
  /// Adds a host with these resources. Throws Error(kAlreadyExists) if it has one of that name.
  void add_host(const std::string& name, Amounts total,
                std::map<std::string, std::string> labels = {});
  void add_host(const std::string& name, std::uint32_t devices) {
    add_host(name, Amounts{{kDevicesName, devices}});
  }
  /// Removes a host and its resources. Meshes keep theirs elsewhere. Its bundles lose their place.
  void remove_host(const std::string& name);

  /// Marks a host as away, or as back. Nothing new is placed on a host that is away.
  void set_away(const std::string& name, bool away);
  /// Marks a host as leaving, for as long as it is here. Nothing new is placed on it.
  void set_leaving(const std::string& name);

  /// Returns request.places, if it has some; see check_free(). Else a place with request.needs for
  /// each rank, by its strategy, hosts and labels, or in the bundles of its reservation. Throws
  /// Error(kResourceExhausted) with a table of hosts if there is no room, Error(kNotFound) if a
  /// host has not joined, Error(kUnavailable) if it is away or leaves, Error(kFailedPrecondition)
  /// if the reservation was released or has too small bundles. All say what to do.
  std::vector<HostDevice> find_places(const MeshRequest& request) const;
  /// Returns another place for each rank of `missing`: on its last host, or else on another one, as
  /// find_places() does. `places`: last place of each rank. Throws Error(kResourceExhausted) with a
  /// table of hosts.
  std::vector<HostDevice> find_replacements(const MeshRequest& request,
                                            const std::vector<HostDevice>& places,
                                            const std::vector<std::uint32_t>& missing) const;
  /// Throws Error(kResourceExhausted) if a place has no room for request.needs, or its host is not
  /// available.
  void check_free(const MeshRequest& request, const std::vector<HostDevice>& places) const;
  /// Returns false if the mesh has no place even with all resources of the present hosts free.
  bool could_fit(const MeshRequest& request) const;

  /// Returns the hosts in the order of joining, for owners that choose devices themselves.
  std::vector<HostDevices> hosts() const;
  Resources total_of(const std::string& host) const;
  /// Returns the resources of a host that meshes and reservations have.
  Resources used_on(const std::string& host) const;
  /// Returns a number that grows when hosts change or resources become free.
  std::uint64_t changes() const { return changes_; }
  /// Returns a number that grows when the result of could_fit() or candidates() may change.
  std::uint64_t host_changes() const { return host_changes_; }
  /// Returns a number that grows with each change, also when resources are taken.
  std::uint64_t revision() const { return changes_ + num_taken_; }

  /// Assigns a place to a rank, with request.needs. Skips hosts that have not joined.
  void assign(const MeshKey& key, std::uint32_t rank, const HostDevice& place,
              const MeshRequest& request);
  /// Gives what a rank has to the same rank of the next epoch.
  void move(const MeshKey& from, const MeshKey& to, std::uint32_t rank);
  void free(const MeshKey& key, std::uint32_t rank);
  /// Frees what a mesh has, except on hosts in `but_on`.
  void free(const MeshKey& key, const std::set<std::string>& but_on = {});

  // Reservations (reserved_bundles.cc).
  /// Returns places for all bundles, or nothing if there is no room now. Throws Error(kNotFound) if
  /// a host has not joined.
  std::optional<std::vector<BundlePlace>> find_bundles(const ReservationRequest& request) const;
  /// Returns false if there is no room even with all resources of the present hosts free.
  bool could_fit(const ReservationRequest& request) const;
  /// Returns the number of bundles that a try could place now.
  std::size_t num_fitting(const ReservationRequest& request) const;
  /// Returns the error of a reservation without room: kResourceExhausted with the table of hosts.
  Error shortage(const ReservationRequest& request) const;
  /// Returns the hosts that could take a bundle if they were free.
  std::set<std::string> candidates(const ReservationRequest& request) const;
  /// Assigns bundles to a reservation. Bundles without a host, or whose host has not joined, have
  /// no place.
  void reserve(const MeshKey& key, const ReservationRequest& request,
               const std::vector<BundlePlace>& places);
  /// Frees a reservation. Meshes keep what they have of it.
  void release(const MeshKey& key);
  /// Finds places for bundles that have none, and for unused ones on hosts that leave. Returns
  /// whether a bundle has a new place. Places all such bundles or none.
  bool replace_lost(const MeshKey& key, const ReservationRequest& request);
  /// Returns the places of bundles; empty without such a reservation.
  std::vector<BundlePlace> bundle_places(const MeshKey& key) const;
  /// Returns the names of the meshes in each bundle.
  std::vector<std::set<std::string>> bundle_users(const MeshKey& key) const;

  /// Returns "host     devices  free  in use by\nworker0  2        0     mesh front (2)\n...".
  std::string table() const { return table(Amounts{{kDevicesName, 1}}, {}); }

 private:
  struct HostState {
    std::string name;
    Amounts total;
    std::map<std::string, std::string> labels;
    std::vector<MeshKey> users;         // Users by device; empty name: none.
    std::vector<MeshKey> reservations;  // Reservations by device; empty name: none.
    Amounts used = {};                  // Without devices. Bundles count as a whole.
    std::size_t num_uses = 0;           // Ranks outside of bundles, and bundles.
    bool away = false;
    bool leaving = false;
    bool accepts_processes() const { return !away && !leaving; }
    bool is_free(std::size_t device) const {
      return users[device].name.empty() && reservations[device].name.empty();
    }
    std::int64_t free(const std::string& resource) const;
    double load() const;
  };
  struct Bundle {
    Amounts total;
    bool moves = true;  // False if it is lost with its host.
    std::string host = {};
    std::vector<std::uint32_t> devices = {};
    Amounts used = {};  // Without devices.
  };
  /// Place and resources of a rank.
  struct Claim {
    HostDevice place;
    Amounts amounts;  // Without devices.
    /// Reservation that it is part of; empty name: none.
    MeshKey reservation = {};
    std::size_t bundle = 0;
  };
  /// Mesh or reservation to be placed.
  struct Wanted {
    std::string what;         // "mesh 'pool'"
    std::string description;  // "mesh 'pool' [worker=8]"
    std::vector<Amounts> needs;
    const std::vector<std::string>& hosts;
    const std::map<std::string, std::string>& labels;
    PlacementStrategy strategy;
  };
  enum class Room : std::uint8_t { kFree, kAll };
  struct Found {
    PlacedBundles placed;
    std::vector<const HostState*> hosts;  // Hosts that `placed` indexes.
  };

  const HostState* find(const std::string& name) const;
  HostState* find(const std::string& name) {
    return const_cast<HostState*>(std::as_const(*this).find(name));
  }
  std::vector<std::string> names() const;
  static Wanted wanted_of(const MeshRequest& request, std::size_t num_ranks);
  static Wanted wanted_of(const ReservationRequest& request);
  /// Returns the hosts in the order of preference. Throws for kFree what find_places() throws if a
  /// named one cannot be used.
  std::vector<const HostState*> hosts_for(const Wanted& wanted, Room room) const;
  /// Returns the listed hosts on which processes can start now. Leaves out the others.
  std::vector<const HostState*> present_hosts(
      const std::vector<std::string>& listed,
      const std::map<std::string, std::string>& labels) const;
  Found search(const Wanted& wanted, Room room) const;
  /// `kept`, `last`: host by bundle; empty name: none.
  Found search_on(const Wanted& wanted, std::vector<const HostState*> hosts, Room room,
                  const std::vector<std::string>& kept, const std::vector<std::string>& last) const;
  /// Returns the first needs that no present host could hold, or else those of the first bundle.
  const Amounts& unmet_needs(const Wanted& wanted) const;
  [[noreturn]] void fail_no_room(const Wanted& wanted, std::size_t num_placed) const;
  /// Returns the lowest free device of a host that is not in `taken`, and adds it.
  static std::uint32_t take_device(const HostState& host,
                                   std::set<std::pair<std::string, std::uint32_t>>& taken);
  std::vector<HostDevice> find_in_bundles(const MeshRequest& request,
                                          const std::vector<std::uint32_t>& ranks) const;
  /// `index`: number of `bundle` in its reservation.
  HostDevice find_in_bundle(const MeshRequest& request, std::size_t index, const Bundle& bundle,
                            const Amounts& needs) const;
  /// Returns the bundle of a claim; null if it is in none.
  Bundle* bundle_of(const Claim& claim);
  void give_back(const MeshKey& key, const Claim& claim);
  void take_bundle(const MeshKey& key, Bundle& bundle, const BundlePlace& place);
  /// Frees the place of a bundle, which has no users.
  void free_bundle(Bundle& bundle);
  // Meshes of a run (reserved_meshes.cc).
  /// Places the first `count` of request.meshes.
  RunPlacement place_meshes(const ReservationRequest& request, std::size_t count, Room room) const;
  std::optional<std::vector<BundlePlace>> find_bundles_of_meshes(
      const ReservationRequest& request) const;
  std::size_t num_fitting_of_meshes(const ReservationRequest& request) const;
  std::set<std::string> candidates_of_meshes(const ReservationRequest& request) const;
  [[noreturn]] void fail_no_room_for_meshes(const ReservationRequest& request) const;
  /// Returns a table of hosts with the resources of `columns`, and these labels.
  std::string table(const Amounts& columns, const std::map<std::string, std::string>& labels) const;
  std::string use_text(const HostState& host) const;

  std::vector<HostState> hosts_;                              // Hosts in the order of joining.
  std::map<MeshKey, std::map<std::uint32_t, Claim>> claims_;  // By mesh and rank.
  std::map<MeshKey, std::vector<Bundle>> reservations_;
  std::uint64_t changes_ = 0;
  std::uint64_t host_changes_ = 0;
  std::uint64_t num_taken_ = 0;  // Places that were taken so far.
};

}  // namespace weft::actors
