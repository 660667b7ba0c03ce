#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/event_log.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Reservations of owners: those that are granted, and those that wait until others free what they
/// need.
///
/// A reservation is granted as a whole. First come, first served: one that waits holds back later
/// ones that could use one of its hosts. Meshes outside of reservations are not held back. The
/// bundles of a host that was removed move to hosts with room, except those of the meshes of a run
/// (ReservationRequest::meshes), whose driver replaces hosts itself. Saves each granted reservation
/// as a row of the head's state; those that wait ask the next head again. Owned by the head; its
/// thread only.
class Reservations final {
 public:
  static constexpr std::size_t kMostBundles = 1'000;
  /// Limit of the calls of one owner that wait at the same time.
  static constexpr std::size_t kMostWaiting = 100;

  Reservations(Context& context, const Clock& clock, const MeshOwners& owners,
               ResourceAllocator& resources, StateStore& store, EventLog& log)
      : context_(context),
        clock_(clock),
        owners_(owners),
        resources_(resources),
        store_(store),
        log_(log) {}
  Reservations(const Reservations&) = delete;
  Reservations& operator=(const Reservations&) = delete;

  /// Adds the reservations of the saved state, after the hosts and owners, and before the meshes.
  /// Throws Error.
  void read_rows();

  /// Returns the reservation of that name that the owner has, if the request is the same. Else
  /// grants a new one, after waiting for its resources. Throws Error(kResourceExhausted) with the
  /// table of hosts if it would not fit even without other users (one for the meshes of a run also
  /// later, after a host was lost), Error(kDeadlineExceeded) with the
  /// same after request.within_ns, Error(kAlreadyExists) if the owner has another one of that name,
  /// Error(kNotFound) if a host has not joined, and Error(kResourceExhausted) if kMostWaiting calls
  /// of the owner wait.
  task<ReservedBundles> reserve(ProcessId owner, ReservationRequest request);
  /// Ends a reservation. Meshes keep what they have of it until they end. Does nothing if there is
  /// none. Throws Error(kFailedPrecondition) if the caller does not own it.
  void release(const MeshKey& key, ProcessId caller);

  /// Throws Error(kFailedPrecondition) if a mesh names a reservation of another owner. Moves its
  /// bundles that have lost their host, if there is room.
  void prepare(const MeshRequest& request, ProcessId owner);
  /// Moves bundles that have lost their host, if there is room. Called periodically.
  void replace_lost();
  /// Wakes the calls that wait, if something has become free.
  void notify_waiters();

  bool owns_any(ProcessId owner) const;
  /// Gives the reservations of a driver to the next one of its run. Releases those of meshes.
  void transfer(ProcessId from, ProcessId to);
  /// Releases the reservations that an owner, which has reconnected, does not list. Those of its
  /// predecessor stay, until it has listed them once.
  void release_unlisted(ProcessId owner, const std::vector<MeshKey>& held);
  /// Releases the reservations of an owner that has ended.
  void release_all_of(ProcessId owner);

  std::vector<ReservationStatus> statuses() const;
  /// Marks reserved devices without a process in the status of a host.
  void add_device_users(HostStatus& host) const;

 private:
  struct Reservation : ReservationRow {
    /// True if the owner has asked for it since it registered last.
    bool asked_for = false;
  };
  /// Call that waits. In `waiting_` as long as it lives.
  class Waiting;

  static void check(const ReservationRequest& request);
  std::map<MeshKey, Reservation>::iterator find(ProcessId owner, const std::string& name);
  /// Returns the owner's reservation if it is what is wanted. Releases another one that is
  /// inherited and was not asked for, else throws Error(kAlreadyExists).
  const MeshKey* find_same(ProcessId owner, const ReservationRequest& wanted);
  /// Returns places for a reservation that is first in its line, or nothing. Bundles of others that
  /// have lost their host get new places before.
  std::optional<std::vector<BundlePlace>> find_places(Waiting& waiting);
  /// Returns the first reservation that waits longer, could be granted, and could use one of its
  /// hosts; null if none.
  Waiting* ahead_of(Waiting& waiting) const;
  ReservedBundles grant(const Waiting& waiting, std::vector<BundlePlace> places);
  /// Returns why a reservation waits: "2 of 4 bundles fit now".
  std::string reason(Waiting& waiting) const;
  [[noreturn]] void fail_waiting(Waiting& waiting) const;
  std::size_t num_waiting(ProcessId owner) const;
  std::string describe(const ReservationRequest& request, ProcessId owner) const;
  void save(const MeshKey& key, const Reservation& reservation);
  void end(std::map<MeshKey, Reservation>::iterator reservation, const std::string& how);
  void replace_lost(const MeshKey& key, Reservation& reservation);
  void release_all(const std::vector<MeshKey>& keys);
  void notify_all();

  Context& context_;
  const Clock& clock_;
  const MeshOwners& owners_;
  ResourceAllocator& resources_;
  StateStore& store_;
  EventLog& log_;
  std::map<MeshKey, Reservation> reservations_;
  std::map<std::uint64_t, Waiting*> waiting_;  // By the time of their calls.
  std::uint64_t next_turn_ = 0;
  std::uint64_t notified_change_ = 0;
  std::uint64_t replaced_change_ = 0;
};

}  // namespace weft::actors
