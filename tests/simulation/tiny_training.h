#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"
#include "tests/simulation/cluster_world.h"

namespace weft::simulation {

/// What the processes of a world leave for whoever watches it; in no process's memory.
struct Records {
  struct Owner {
    ProcessNumber process = 0;
    std::string mesh;
    std::uint64_t epoch = 0;
  };
  /// By "worker0 device 1": the process that was last said to have it.
  std::map<std::string, Owner> device_owners;
  /// The last term and epoch of each mesh, by name.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> last_epochs;
  std::string cluster;
  std::uint64_t term = 0;
  struct Run {
    bool begun = false;
    bool done = false;
    double loss = 0;
    std::string error;
    std::optional<int> status;  ///< of `weft run`, where it is started by that
    // What the driver has on disk.
    int kept_step = 0;
    double kept_weight = 1;
  };
  std::map<std::string, Run> runs;
  Secret token;  ///< of the cluster that is started by hand
  /// The next run is to find it in the head's books: "first" has done all, and said so.
  bool first_is_done = false;
  std::vector<std::string> violations;
};

/// A mistake put in on purpose, which a rule of the scenario must find.
enum class Plant {
  kNone,
  kLosesUpdate,    ///< All devices leave out one update.
  kRunsStepTwice,  ///< The driver sends a step again as if its answer had been lost.
  kLosesWakeup,    ///< Now and then nobody wakes who waits.
  kForgetsState,   ///< The disk says that it has synced.
  kFreesDevices,   ///< A host says that processes are gone which run.
  kTellsNoCause,   ///< A run that fails tells what it has noticed, not why.
  kKeepsOldState,  ///< After a death, devices that live are not taken back to the state kept.
};

struct TinyOptions {
  /// Each has a mesh of its own, of an equal part of the devices; none: one mesh on any hosts.
  std::vector<std::string> hosts = {};
  std::vector<std::string> spares = {};
  std::vector<std::string> joined = {};  ///< Hosts that are there when a run begins.
  int devices = 4;
  int steps = 40;
  Plant plant = Plant::kNone;
  bool recovers = false;  ///< The driver has what died replaced, and goes on.
};

/// The loss after so many steps that nothing has disturbed.
double expected_loss(const TinyOptions& options);

/// The words of `weft run` in a world; `head`: empty for a cluster of its own.
std::vector<std::string> run_words(const std::string& run_file, const std::string& head,
                                   const std::string& out);

/// main() of every process of a world: head, agents and devices as in any app, `weft run` from when
/// it has read and checked the run file, and a driver that trains: each device computes a number a
/// step, gets that of its neighbour by a call, and all take the sum of what the driver gathers.
/// Where it recovers, by RunRecovery, from the weight of every tenth step.
int tiny_main(ClusterWorld& world, Records& records, const TinyOptions& options,
              const std::vector<std::string>& arguments);

}  // namespace weft::simulation
