#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "mesh/program/program.h"
#include "transfer/topology/network.h"
#include "transfer/topology/topology.h"
#include "transfer/wire/wire.h"

namespace weft::mesh {

/// Network load of the transfers of programs. A value.
struct Traffic {
  /// Part of a transfer that moves as a unit: a flow, or all flows of a reduction. It moves once
  /// all of its devices have started the transfer, or once its sender has, as far as the others can
  /// buffer it. A device completes it when the movement has ended and all devices behind that
  /// device have started the transfer. Replicas without a common flow start and end independently.
  struct FlowMovement {
    struct Crossing {
      std::uint32_t link = 0;
      double bytes_per_byte = 1;  ///< Bytes over this link per byte of the movement.
    };
    std::vector<transfer::DeviceId> devices;
    double bytes = 0;
    std::vector<Crossing> crossings;  ///< Links; if empty, the movement takes `latency` only.
    double latency = 0;               ///< Seconds from the departure of the last byte to the end.
    double weight = 1;                ///< Weight of its share on links that it shares with others.
    /// Send queue. The movement holds one place while it moves. The order of Starts on `device` is
    /// the order of the queue.
    struct SendQueue {
      std::uint32_t index = 0;
      transfer::DeviceId device;
      /// The movement moves while fewer than this many are ahead of it; 0: see `queue_places`.
      std::size_t places = 0;
    };
    std::optional<SendQueue> queue;
    /// Message size in bytes of a flow that is sent directly from the queue's device, if receivers
    /// buffer its messages before they start the transfer; otherwise 0.
    double eager_chunk = 0;
    /// Device that gets the data from `from` (one of `devices`) inside its host, in no time, once
    /// both have started the transfer.
    struct LocalReceiver {
      transfer::DeviceId device;
      transfer::DeviceId from;
    };
    std::vector<LocalReceiver> behind;
  };

  /// Movements by Transfer::op, in the order in which they compete.
  std::map<std::uint32_t, std::vector<FlowMovement>> movements;
  std::vector<double> link_rates;  ///< Bytes per second, by link.
  /// Movements of a queue that may move at the same time, by queue.
  std::vector<std::size_t> queue_places;
  /// Bytes that a device buffers at most, per sender, of transfers that it has not started. A
  /// message beyond that, and all later ones of its flow, stay with the sender until then.
  double eager_budget = transfer::Wire::kEagerBudget;
};

/// Network parameters that are not measured.
struct TrafficOptions {
  /// Weight of a device on its host's link, relative to the device before it on that host.
  double device_weight_ratio = 0.9;
};

/// Returns the traffic of programs that were compiled together. Each host has a link in each
/// direction (egress of host h: 2h, ingress: 2h + 1), and each device has a send queue with the
/// limits of the executor (transfer::EgressLimit, unless the plan sets egress_slots). Links inside
/// hosts are free, and so are transfers that the GPU library carries.
///
/// The devices of a host share its link unevenly: each gets a tenth less than the one before it,
/// because TCP connections through one queue have windows that differ and stay so. With equal
/// shares, replicas would stay in step for ever and wait for each other's transfers; real replicas
/// drift apart. The tenth was fitted to measured steps; tests/bench/forecast_fit reports the error
/// on other steps. Throws Error(kInvalidArgument) if the network lacks a host.
Traffic traffic_of(const std::vector<Program>& programs, const transfer::Topology& topology,
                   const transfer::Network& network, const TrafficOptions& options = {});

/// Returns the seconds for which the busiest direction of any host's link is busy in one step: the
/// bytes of the programs' transfers over the link's rate. No order of the same transfers makes a
/// step shorter. Throws as traffic_of() does.
double busiest_link_seconds(const std::vector<Program>& programs,
                            const transfer::Topology& topology, const transfer::Network& network);

}  // namespace weft::mesh
