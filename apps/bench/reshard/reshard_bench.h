#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench/reshard/bench_case.h"
#include "apps/bench/reshard/bench_cluster.h"
#include "apps/bench/reshard/bench_result.h"
#include "core/base/secret.h"

namespace weft::apps {

/// Runner of the benchmark's cases on a cluster. Used by one thread at a time.
class ReshardBench final {
 public:
  struct Options {
    std::vector<std::string> strategies;
    int repeat = 5;
    /// Factor of the limit. Strategies that are forecast to take longer than that, and over a
    /// second, run once without warm-up; 0: none do.
    double single_run_factor = 0;
    /// Least share of the best strategy's forecast speed (0.5: half as fast). Strategies below it
    /// are planned but not run.
    double min_forecast_share = 0;
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< Called with a line of progress.
  };
  ReshardBench(BenchCluster& cluster, Options options)
      : cluster_(cluster), options_(std::move(options)) {}

  /// Runs one case under every strategy: shapes and measures the links, plans, warms up, then runs
  /// the strategies in turn, `repeat` times. Throws Error(kDataLoss) if bytes are wrong or did not
  /// cross the network, kCancelled after a stop.
  std::vector<BenchResult> run(const BenchCase& bench);

  /// Runs one case under one strategy and kills a relaying host by SIGKILL at half of the predicted
  /// time. The other hosts report what they received, plan the rest and finish. Measures the time
  /// from the start to the last survivor's end.
  BenchResult run_with_death(const BenchCase& bench, const std::string& strategy);

 private:
  /// Limit of each link by host and interface, in bits per second; 0: unlimited, as on loopback.
  /// Links of one rate are of one kind.
  using LinkKinds = std::vector<std::vector<std::uint64_t>>;
  /// Measured bytes per second of a link; 0: unknown.
  struct LinkRates {
    double in = 0, out = 0;
  };
  /// Host that relays data to others and is killed midway.
  struct KilledRelay {
    std::size_t host = 0;
    std::vector<transfer::DeviceId> devices;
    std::vector<std::size_t> survivors;  ///< The other hosts.
  };

  void shape_links(const BenchCase& bench);
  /// Returns the payload rate of each interface, measured by plain TCP streams over all links at
  /// once. Cached per set of links.
  transfer::Network measure(const BenchCase& bench);
  LinkKinds link_kinds(const BenchCase& bench) const;
  std::vector<std::vector<LinkRates>> probe_links(const LinkKinds& kinds);
  /// Derives a rate for every link from the measured ones.
  transfer::Network network_of(const BenchCase& bench, const LinkKinds& kinds,
                               const std::vector<std::vector<LinkRates>>& rates) const;
  HostTask task_of(const BenchCase& bench, const transfer::Network& network,
                   std::size_t host) const;
  void load(const BenchCase& bench, const transfer::Network& network);
  /// Plans in the driver and on every host. Throws Error(kIncompatible) if the plans differ.
  BenchResult plan(const BenchCase& bench, const transfer::Network& network,
                   const std::string& strategy);
  void check_content(const BenchCase& bench, const std::string& strategy, std::uint32_t repetition,
                     const std::vector<std::size_t>& hosts);
  /// Runs one repetition. The warm-up (repetition 0) is not recorded in `result`.
  void repeat(const BenchCase& bench, std::uint32_t repetition, BenchResult& result);
  KilledRelay choose_relay(const BenchCase& bench, const transfer::Network& network,
                           const std::string& strategy) const;
  /// Runs the planned strategy from `start_ns` on until the relay has died and the others have
  /// stopped.
  RepairRequest run_until_death(const BenchCase& bench, const BenchResult& planned,
                                const KilledRelay& relay, std::int64_t start_ns);
  /// Runs the repair `plan` on the survivors. Returns the time at which the last one finished, on
  /// the steady clock.
  std::int64_t run_repair(const BenchCase& bench, const RepairRequest& repair,
                          const transfer::ReshardPlan& plan, const KilledRelay& relay,
                          double deadline_seconds);
  std::vector<InterfaceBytes> interface_counters(std::size_t hosts) const;
  void check_stop() const;

  BenchCluster& cluster_;
  const Options options_;
  const Secret secret_ = Secret::random();  // for the data connections
  /// Bits per second that are set, by (host, interface).
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> shaped_;
  std::map<LinkKinds, transfer::Network> measured_;
  std::uint64_t runs_ = 0;
};

}  // namespace weft::apps
