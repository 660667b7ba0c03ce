#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"

namespace weft {

/// Size of an argument of `send`, and of a result of `reduce`.
inline constexpr int kLargeBytes = 1 << 20;

/// Sizes of the scenarios.
struct ScenarioOptions {
  int hosts = 4;             ///< agents of the cluster
  int actors = 100;          ///< actors of `start`, `gather` and `send`
  int shared_actors = 1000;  ///< actors of `start_shared`
  int calls = 4000;          ///< calls of `call`, one after the other
  int pipelined = 100000;    ///< calls of `pipelined`, and of all callers of `pairs`
  int rounds = 100;          ///< calls to all actors of `gather`
  int reduced = 64;          ///< actors of `reduce`
  int large_rounds = 10;     ///< calls to all actors of `send` and `reduce`
  /// Measurements of `start` and `start_shared`; actors of `restart`, each killed three times.
  int repeats = 3;
};

/// Calls without a framework, over plain sockets. They run before the process has threads.
std::vector<std::string> raw_scenarios();
/// Runs one of raw_scenarios(). Returns its figures, by name with their unit.
nlohmann::json run_raw_scenario(const std::string& name, const ScenarioOptions& options);

/// Actors on a cluster of device processes.
std::vector<std::string> cluster_scenarios();
/// Runs one of cluster_scenarios(). Returns its figures, by name with their unit.
nlohmann::json run_cluster_scenario(const std::string& name, actors::Cluster& cluster,
                                    const ScenarioOptions& options);
/// Lets the device processes of `app` host the actors of the scenarios.
void provide_actors(actors::AppMain& app);

}  // namespace weft
