#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"
#include "tests/simulation/cluster_world.h"
#include "tests/simulation/plant.h"
#include "tests/simulation/tiny_objects.h"
#include "tests/simulation/tiny_rooms.h"
#include "tests/simulation/tiny_service.h"

namespace weft::simulation {

/// Data that processes leave for the scenario's checks. It belongs to no simulated process.
struct Records {
  struct Owner {
    ProcessNumber process = 0;
    std::string mesh;
    std::uint64_t epoch = 0;
  };
  /// Last known process of each device, by name such as "worker0 device 1".
  std::map<std::string, Owner> device_owners;
  /// Last term and epoch of each mesh, by name.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> last_epochs;
  std::string cluster;
  std::uint64_t term = 0;
  struct Run {
    bool begun = false;
    bool done = false;
    double loss = 0;
    std::string error;
    std::optional<int> status;  ///< Exit status of `weft run`, if supervised.
    // State that the driver has saved.
    int kept_step = 0;
    double kept_weight = 1;
  };
  std::map<std::string, Run> runs;
  Secret token;  ///< Token of a cluster started by hand.
  /// True if the head must list "first" as done when the next run begins.
  bool first_is_done = false;
  bool is_disturbed = false;  ///< True while faults may happen or have effects.
  bool may_forget = false;    ///< True if a fault may have lost what the head has saved.
  ServiceRecords service;
  ObjectRecords objects;
  RoomRecords rooms;
  std::vector<std::string> violations;
};

struct TinyOptions {
  /// Hosts that each have a mesh with an equal part of the devices. Empty: one mesh on any hosts.
  std::vector<std::string> hosts = {};
  std::vector<std::string> spares = {};
  std::vector<std::string> joined = {};  ///< Hosts in the cluster when a run begins.
  int devices = 4;
  int steps = 40;
  Plant plant = Plant::kNone;
  bool recovers = false;     ///< True if the driver replaces dead devices and continues.
  bool has_service = false;  ///< True if supervised actors run beside the training.
  bool has_objects = false;  ///< True if objects are used beside the training.
  bool has_rooms = false;    ///< True if reservations are made beside the training.
  bool calm = false;         ///< True if nothing fails.
};

/// Returns the loss of an undisturbed run.
double expected_loss(const TinyOptions& options);

/// Returns the arguments of `weft run` in a world. If `head` is empty, the run has its own cluster.
std::vector<std::string> run_words(const std::string& run_file, const std::string& head,
                                   const std::string& out);

/// main() of every process of a world. Head, agents and devices run as in any app; `weft run`
/// starts after the check of the run file. Each step, a device computes a number from its own and
/// its neighbour's weight, and all devices apply the sum. A driver that recovers saves the weight
/// every ten steps and uses RunRecovery.
int tiny_main(ClusterWorld& world, Records& records, const TinyOptions& options,
              const std::vector<std::string>& arguments);

}  // namespace weft::simulation
