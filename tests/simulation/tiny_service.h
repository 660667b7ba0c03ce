#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch/app_main.h"
#include "tests/simulation/plant.h"

namespace weft::simulation {

/// Data that the actors of a TinyService leave for the checks.
struct ServiceRecords {
  std::map<std::uint64_t, int> executions;       ///< Executions of each call, by its number.
  std::map<std::string, std::uint64_t> serving;  ///< Latest incarnation that has served, by actor.
  std::uint64_t calls = 0;
  std::uint64_t incarnations = 0;
  std::vector<std::string> violations;
  /// Returns whether the calling process cannot be told to end: its host is cut off from that of
  /// the head and the drivers, or was until so recently that the stop was not repeated yet.
  std::function<bool()> is_cut_off;
};

/// Supervised actors in shared processes beside the training of a run. Each starts a child, and is
/// called in every step. Checks that
///   - a call that has returned has run, and only idempotent ones run twice;
///   - no incarnation of an actor serves after a later one has;
///   - children end with their parents, unless they cannot be reached.
class TinyService final {
 public:
  /// `calm`: nothing fails, so each call must succeed.
  TinyService(ServiceRecords& records, actors::Cluster& cluster, Plant plant, bool calm);
  ~TinyService();
  TinyService(const TinyService&) = delete;
  TinyService& operator=(const TinyService&) = delete;

  /// Spawns the actors if they are not there, begins a call of one of them, and checks the calls
  /// that have ended.
  void step();
  /// Checks all calls.
  void finish();

  /// Lets the processes of `app` host the actors.
  static void provide(actors::AppMain& app, ServiceRecords& records, Plant plant);

 private:
  class Calls;
  void start();
  /// Checks the calls that have ended, or waits for all.
  void check(bool all);
  void violation(const std::string& what) { records_.violations.push_back(what); }

  ServiceRecords& records_;
  actors::Cluster& cluster_;
  const Plant plant_;
  const bool calm_;
  std::unique_ptr<Calls> calls_;
  bool gave_up_ = false;  // the actors could not be spawned
};

}  // namespace weft::simulation
