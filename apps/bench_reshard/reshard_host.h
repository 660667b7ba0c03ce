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
#include "apps/bench_reshard/tcp_probe.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/flow/landed.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"
#include "transfer/wires/data_plane.h"

namespace weft::apps {

/// A case as the hosts get it: every host plans it by itself.
struct HostTask {
  transfer::Topology topology;
  std::vector<transfer::ReshardTask> tasks;
  transfer::Network network;  ///< As measured.
  transfer::HostId host;      ///< Which host of the case the receiver of this is.
  std::string interfaces;     ///< See WireSettings: "eth0,eth1".
  Secret::Bytes secret = {};  ///< Of the hosts' data connections, see WireSettings.
  std::string transport = transfer::kDefaultTransport;
  static constexpr auto fields =
      weft::fields(&HostTask::topology, &HostTask::tasks, &HostTask::network, &HostTask::host,
                   &HostTask::interfaces, &HostTask::secret, &HostTask::transport);
};

/// From telling the hosts when to start until then.
constexpr auto kStartIn = std::chrono::milliseconds(20);
/// The monotonic clock's reading so long from now, in nanoseconds.
inline std::int64_t nanoseconds_in(Nanoseconds time) {
  return (SteadyClock().now() + time).time_since_epoch().count();
}

struct RunRequest {
  std::string strategy;
  std::uint64_t run = 0;      ///< Counts up over the whole benchmark.
  std::int64_t start_ns = 0;  ///< On the steady clock, which all hosts of one machine share.
  double deadline_seconds = 0;
  /// The host's process kills itself then, if it is still busy; 0: never.
  std::int64_t die_ns = 0;
  static constexpr auto fields =
      weft::fields(&RunRequest::strategy, &RunRequest::run, &RunRequest::start_ns,
                   &RunRequest::deadline_seconds, &RunRequest::die_ns);
};

/// What lies in its place on a device after a run that failed, by flow of the plan.
struct HostLanded {
  transfer::DeviceId device;
  std::vector<transfer::LandedChunks> flows;
  static constexpr auto fields = weft::fields(&HostLanded::device, &HostLanded::flows);
};

/// Times are of the steady clock.
struct RunReply {
  /// The first part was handed to an engine; 0: this host had nothing to do.
  std::int64_t started_ns = 0;
  std::int64_t finished_ns = 0;    ///< The last engine was done.
  double cpu_seconds = 0;          ///< Of this process, between the two.
  std::string failure;             ///< Of the first transfer that failed; empty: none has.
  std::vector<HostLanded> landed;  ///< After a failure.
  static constexpr auto fields =
      weft::fields(&RunReply::started_ns, &RunReply::finished_ns, &RunReply::cpu_seconds,
                   &RunReply::failure, &RunReply::landed);
};

/// Which devices have died under a plan, and what the others have got of it.
struct RepairRequest {
  std::string strategy;
  std::vector<HostLanded> landed;
  std::vector<transfer::DeviceId> dead;
  static constexpr auto fields =
      weft::fields(&RepairRequest::strategy, &RepairRequest::landed, &RepairRequest::dead);
};
/// The plan of what is missing, made from the plan of the loaded case.
transfer::ReshardPlan plan_repair_of(const HostTask& task, const RepairRequest& request);
/// The strategy that runs a planned repair.
inline constexpr const char* kRepair = "repair";

/// Bytes since the interfaces were made.
struct InterfaceBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  static constexpr auto fields = weft::fields(&InterfaceBytes::sent, &InterfaceBytes::received);
};

struct ProbeRequest {
  std::vector<actors::Address> targets;  ///< By interface.
  std::int64_t start_ns = 0;
  double seconds = 0;
  static constexpr auto fields =
      weft::fields(&ProbeRequest::targets, &ProbeRequest::start_ns, &ProbeRequest::seconds);
};

/// One host of the resharding benchmark: a transfer engine and the memory for each device of the
/// case.
///
/// Owner's thread only. What takes long (filling, comparing, planning) blocks the handler: the
/// driver waits for it.
class ReshardHost final {
 public:
  using Arguments = std::tuple<>;
  explicit ReshardHost(actors::Context& context);
  ~ReshardHost();

  /// Forgets the case before and makes engines and buffers for the devices of this host. Returns
  /// the engines' addresses.
  std::vector<transfer::PeerAddress> load(HostTask task);
  void connect(const std::vector<transfer::PeerAddress>& engines);
  /// Plans the loaded case and returns the plan's digest. The plan of each strategy is kept until
  /// the next load().
  std::string plan(const std::string& strategy);
  /// Fills sources with the repetition's pattern and wipes destinations.
  void fill(std::uint32_t repetition);
  /// Plans what is missing after a death and returns the plan's digest; run it as strategy kRepair.
  std::string plan_repair(const RepairRequest& request);
  /// Runs this host's part of a plan.
  actors::task<RunReply> run(RunRequest request);
  /// What is wrong in the destinations after a repetition; empty: nothing.
  std::vector<std::string> differences(std::uint32_t repetition);
  /// Sums over eth0, eth1, ...
  InterfaceBytes interface_bytes();
  /// Before probe(): listens on a port of each address, one per interface.
  std::vector<actors::Address> listen_for_probe(const std::vector<std::string>& addresses);
  /// Received bytes per second, by interface. See TcpProbe.
  actors::task<std::vector<double>> probe(ProbeRequest request);

  static constexpr auto endpoints = actors::interface<"bench.reshard_host", 1>(
      actors::on<&ReshardHost::load>("load"), actors::on<&ReshardHost::connect>("connect"),
      actors::on<&ReshardHost::plan>("plan"), actors::on<&ReshardHost::plan_repair>("plan_repair"),
      actors::on<&ReshardHost::fill>("fill"), actors::on<&ReshardHost::run>("run"),
      actors::on<&ReshardHost::differences>("differences"),
      actors::on<&ReshardHost::interface_bytes>("interface_bytes"),
      actors::on<&ReshardHost::listen_for_probe>("listen_for_probe"),
      actors::on<&ReshardHost::probe>("probe"));

 private:
  /// One device of this host: its engine and its memory by tensor, empty where it holds or wants
  /// nothing.
  struct Device {
    transfer::DeviceId id;
    std::unique_ptr<transfer::TransferEngine> engine;
    std::vector<std::vector<std::byte>> sources, destinations;
  };

  /// A device's memory as its part of a plan uses it, by tensor.
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
  /// By strategy: the parts of devices_, in their order.
  std::map<std::string, std::vector<transfer::DevicePart>> parts_;
  std::unique_ptr<TcpProbe> probe_;
};

}  // namespace weft::apps
