#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"
#include "tests/simulation/cluster_world.h"
#include "tests/simulation/plant.h"

namespace weft::simulation {

/// Data that the actors of a TinyObjects leave for the checks.
struct ObjectRecords {
  std::uint64_t objects = 0;  ///< Objects that were put so far.
  /// True if objects get second copies also while there are faults. A second copy outlives its
  /// owner, and its connection to the owner, so that copies may be left.
  bool has_second_copies = false;
  std::vector<std::string> violations;
};

/// Objects that the driver of a run and actors on its hosts put, pass, get, share and drop beside
/// the training. Checks that
///   - a get ends with the bytes that were put, or with an error that its object or a fault
///     explains;
///   - no object is read after it was freed: its bytes stay until its readers are done;
///   - after all owners have dropped their objects, no process holds a copy.
class TinyObjects final {
 public:
  /// `calm`: nothing fails, so only objects that were dropped may be missing.
  TinyObjects(ObjectRecords& records, ClusterWorld& world, actors::Cluster& cluster, bool calm);
  ~TinyObjects();
  TinyObjects(const TinyObjects&) = delete;
  TinyObjects& operator=(const TinyObjects&) = delete;

  /// Spawns the actors if they are not there, begins some random uses of objects, and checks those
  /// that have ended.
  void step();
  /// Waits for all uses, drops all objects, and waits until their memory is free.
  void finish();

  /// Lets the processes of `app` host the actors.
  static void provide(actors::AppMain& app, ObjectRecords& records, Plant plant);

 private:
  class Uses;
  void violation(const std::string& what) { records_.violations.push_back(what); }

  ObjectRecords& records_;
  ClusterWorld& world_;
  actors::Cluster& cluster_;
  const bool calm_;
  std::unique_ptr<Uses> uses_;
  bool gave_up_ = false;  // the actors could not be spawned
};

}  // namespace weft::simulation
