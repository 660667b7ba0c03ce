#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench_reshard/bench_case.h"
#include "apps/bench_reshard/bench_cluster.h"
#include "apps/bench_reshard/bench_result.h"
#include "core/base/secret.h"

namespace weft::apps {

/// Runs the benchmark's cases on a cluster. One thread at a time.
class ReshardBench final {
 public:
  struct Options {
    std::vector<std::string> strategies;
    int repeat = 5;
    /// Strategies that are expected to take more than this many times the limit, and a second, run
    /// once, without warming up; 0: no such.
    double once_beyond = 0;
    /// Strategies that are expected to be slower than the best one by more than this factor (0.5:
    /// half as fast) are planned and not run.
    double least_forecast = 0;
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< A line for a person who waits.
  };
  ReshardBench(BenchCluster& cluster, Options options)
      : cluster_(cluster), options_(std::move(options)) {}

  /// One case under every strategy: shapes and measures the links, plans, warms up, then runs the
  /// strategies in turn, `repeat` times. Throws what went wrong: Error(kDataLoss) when a byte
  /// arrived wrong or not over the wire, kCancelled after a stop.
  std::vector<BenchResult> run(const BenchCase& bench);

  /// One case under one strategy while a host that passes data on is killed when half the time has
  /// gone: its process is gone by SIGKILL, the others report what they have, plan what is missing
  /// and go on. The time is from the start to the last survivor's end.
  BenchResult run_with_death(const BenchCase& bench, const std::string& strategy);

 private:
  /// By host and interface: what the link is limited to, in bits per second; 0: not at all, as on
  /// loopback. Links of one rate are of one kind.
  using LinkKinds = std::vector<std::vector<std::uint64_t>>;
  /// Bytes per second that came through a link; 0: nothing is known.
  struct LinkRates {
    double in = 0, out = 0;
  };
  /// A host that is killed half-way, as it passes on what others need.
  struct KilledRelay {
    std::size_t host = 0;
    std::vector<transfer::DeviceId> devices;
    std::vector<std::size_t> survivors;  ///< The other hosts.
  };

  void shape_links(const BenchCase& bench);
  /// Payload per second of each interface, from plain TCP streams over all links at once. Kept per
  /// set of links.
  transfer::Network measure(const BenchCase& bench);
  LinkKinds link_kinds(const BenchCase& bench) const;
  std::vector<std::vector<LinkRates>> probe_links(const LinkKinds& kinds);
  /// A rate for every link, from those that are known.
  transfer::Network network_of(const BenchCase& bench, const LinkKinds& kinds,
                               const std::vector<std::vector<LinkRates>>& rates) const;
  HostTask task_of(const BenchCase& bench, const transfer::Network& network,
                   std::size_t host) const;
  void load(const BenchCase& bench, const transfer::Network& network);
  /// Plans, and has every host do the same; throws Error(kIncompatible) when one comes to another
  /// plan.
  BenchResult plan(const BenchCase& bench, const transfer::Network& network,
                   const std::string& strategy);
  void check_content(const BenchCase& bench, const std::string& strategy, std::uint32_t repetition,
                     const std::vector<std::size_t>& hosts);
  /// One repetition. The warm-up (repetition 0) leaves no trace in `result`.
  void repeat(const BenchCase& bench, std::uint32_t repetition, BenchResult& result);
  KilledRelay choose_relay(const BenchCase& bench, const transfer::Network& network,
                           const std::string& strategy) const;
  /// Runs the planned strategy from `start_ns` on until the relay has died and the others have
  /// given up.
  RepairRequest run_until_death(const BenchCase& bench, const BenchResult& planned,
                                const KilledRelay& relay, std::int64_t start_ns);
  /// Has the survivors run the repair that `plan` is; returns when the last one was done, on the
  /// steady clock.
  std::int64_t run_repair(const BenchCase& bench, const RepairRequest& repair,
                          const transfer::ReshardPlan& plan, const KilledRelay& relay,
                          double deadline_seconds);
  std::vector<InterfaceBytes> counted(std::size_t hosts) const;
  void check_stop() const;

  BenchCluster& cluster_;
  const Options options_;
  const Secret secret_ = Secret::random();  // of the data connections
  /// Bits per second by (host, interface).
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> shaped_;
  std::map<LinkKinds, transfer::Network> measured_;
  std::uint64_t runs_ = 0;
};

}  // namespace weft::apps
