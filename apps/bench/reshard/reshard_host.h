#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/call/interface.h"
#include "actors/system/context.h"
#include "apps/bench/reshard/tcp_probe.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/flow/landed_chunks.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"
#include "transfer/wires/data_plane.h"

namespace weft::apps {

/// Case as the driver sends it to each host. Every host plans it by itself.
struct HostTask {
  transfer::Topology topology;
  std::vector<transfer::ReshardTask> tasks;
  transfer::Network network;  ///< Measured rates.
  transfer::HostId host;      ///< The receiving host's id in the case.
  std::string interfaces;     ///< Interfaces such as "eth0,eth1"; see WireSettings.
  Secret::Bytes secret = {};  ///< Secret of the data connections; see WireSettings.
  std::string transport = transfer::kDefaultTransport;
  static constexpr auto fields =
      weft::fields(&HostTask::topology, &HostTask::tasks, &HostTask::network, &HostTask::host,
                   &HostTask::interfaces, &HostTask::secret, &HostTask::transport);
};

/// Time between the start request to the hosts and the start.
constexpr auto kStartIn = std::chrono::milliseconds(20);
/// Returns the steady clock's reading `time` from now, in nanoseconds.
inline std::int64_t nanoseconds_in(Nanoseconds time) {
  return (SteadyClock().now() + time).time_since_epoch().count();
}

struct RunRequest {
  std::string strategy;
  std::uint64_t run = 0;      ///< Number of the run in the whole benchmark.
  std::int64_t start_ns = 0;  ///< Time on the steady clock, which all hosts of one machine share.
  double deadline_seconds = 0;
  /// Time at which the host's process kills itself if the run is not over; 0: never.
  std::int64_t kill_at_ns = 0;
  static constexpr auto fields =
      weft::fields(&RunRequest::strategy, &RunRequest::run, &RunRequest::start_ns,
                   &RunRequest::deadline_seconds, &RunRequest::kill_at_ns);
};

/// Chunks that a device had received when a run failed, by flow of the plan.
struct ReceivedChunks {
  transfer::DeviceId device;
  std::vector<transfer::LandedChunks> flows;
  static constexpr auto fields = weft::fields(&ReceivedChunks::device, &ReceivedChunks::flows);
};

/// Result of a host's run. Times are of the steady clock.
struct RunReply {
  /// Time at which the first engine started; 0: the host had nothing to do.
  std::int64_t started_ns = 0;
  std::int64_t finished_ns = 0;        ///< Time at which the last engine finished.
  double cpu_seconds = 0;              ///< CPU time of this process between the two.
  std::string failure;                 ///< Error of a failed transfer; empty if none failed.
  std::vector<ReceivedChunks> landed;  ///< Set after a failure.
  static constexpr auto fields =
      weft::fields(&RunReply::started_ns, &RunReply::finished_ns, &RunReply::cpu_seconds,
                   &RunReply::failure, &RunReply::landed);
};

/// Devices that died during a plan, and the chunks that the others had received.
struct RepairRequest {
  std::string strategy;
  std::vector<ReceivedChunks> landed;
  std::vector<transfer::DeviceId> dead_devices;
  static constexpr auto fields =
      weft::fields(&RepairRequest::strategy, &RepairRequest::landed, &RepairRequest::dead_devices);
};
/// Plans the transfer of the missing chunks, based on the plan of the loaded case.
transfer::ReshardPlan plan_repair_of(const HostTask& task, const RepairRequest& request);
/// Name under which ReshardHost::run() runs a planned repair.
inline constexpr const char* kRepair = "repair";

/// Bytes since the interfaces were created.
struct InterfaceBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  static constexpr auto fields = weft::fields(&InterfaceBytes::sent, &InterfaceBytes::received);
};

struct RateProbe {
  std::vector<actors::Address> targets;  ///< One per interface.
  std::int64_t start_ns = 0;
  double seconds = 0;
  static constexpr auto fields =
      weft::fields(&RateProbe::targets, &RateProbe::start_ns, &RateProbe::seconds);
};

/// Host of the resharding benchmark: a transfer engine and buffers for each device.
///
/// Used by its actor's thread only. Filling, comparing and planning block the handler; the driver
/// waits for them.
class ReshardHost final {
 public:
  using Arguments = std::tuple<>;
  explicit ReshardHost(actors::Context& context);
  ~ReshardHost();

  /// Drops the previous case and makes engines and buffers for the devices of this host. Returns
  /// the engines' addresses.
  std::vector<transfer::PeerAddress> load(HostTask task);
  void connect(const std::vector<transfer::PeerAddress>& engines);
  /// Plans the loaded case and returns the plan's digest. Keeps the plan of each strategy until the
  /// next load().
  std::string plan(const std::string& strategy);
  /// Fills sources with the repetition's pattern and overwrites destinations.
  void fill(std::uint32_t repetition);
  /// Plans the missing chunks after a death and returns the plan's digest. Run it as strategy
  /// kRepair.
  std::string plan_repair(const RepairRequest& request);
  /// Runs this host's part of a plan.
  actors::task<RunReply> run(RunRequest request);
  /// Describes errors in the destinations after a repetition; empty if there are none.
  std::vector<std::string> differences(std::uint32_t repetition);
  /// Sums the counters of eth0, eth1, ...
  InterfaceBytes interface_bytes();
  /// Listens on a port of each address, one per interface. Required before probe().
  std::vector<actors::Address> listen_for_probe(const std::vector<std::string>& addresses);
  /// Measures the received bytes per second of each interface. See TcpProbe.
  actors::task<std::vector<double>> probe(RateProbe request);

  static constexpr auto endpoints = actors::interface<"bench.reshard_host", 1>(
      actors::on<&ReshardHost::load>("load"), actors::on<&ReshardHost::connect>("connect"),
      actors::on<&ReshardHost::plan>("plan"), actors::on<&ReshardHost::plan_repair>("plan_repair"),
      actors::on<&ReshardHost::fill>("fill"), actors::on<&ReshardHost::run>("run"),
      actors::on<&ReshardHost::differences>("differences"),
      actors::on<&ReshardHost::interface_bytes>("interface_bytes"),
      actors::on<&ReshardHost::listen_for_probe>("listen_for_probe"),
      actors::on<&ReshardHost::probe>("probe"));

 private:
  /// Device of this host: its engine and its buffers by tensor. A buffer is empty if the device
  /// does not hold or receive the tensor.
  struct Device {
    transfer::DeviceId id;
    std::unique_ptr<transfer::TransferEngine> engine;
    std::vector<std::vector<std::byte>> sources, destinations;
  };

  /// Views of a device's buffers by tensor of a plan.
  struct Buffers {
    std::vector<std::span<const std::byte>> sources;
    std::vector<std::span<std::byte>> destinations;
  };

  std::string keep_parts(const std::string& strategy, const transfer::ReshardPlan& plan);
  Buffers buffers_of(Device& device, const transfer::DevicePart& part);

  actors::Context& context_;
  const SteadyClock clock_;
  HostTask task_;
  std::vector<Device> devices_;
  /// Parts of devices_, in their order, by strategy.
  std::map<std::string, std::vector<transfer::DevicePart>> parts_;
  std::unique_ptr<TcpProbe> probe_;
};

}  // namespace weft::apps
