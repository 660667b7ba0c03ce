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

/// What the transfers of programs do to the network. A value.
struct Traffic {
  /// A part of a transfer that moves as one: a flow, or all of a collective. It can move as soon as
  /// all of its devices have started the transfer, or its sender, as far as the others keep it
  /// meanwhile; they have done with it when it is over, and those behind them have started too.
  /// Replicas that have no flow in common start and end apart.
  struct Movement {
    struct Crossing {
      std::uint32_t link = 0;
      double times = 1;  ///< Bytes through this link for each of `bytes`.
    };
    std::vector<transfer::DeviceId> devices;
    double bytes = 0;
    std::vector<Crossing> crossings;  ///< None: it takes `latency` alone.
    double latency = 0;               ///< From its last byte's leaving to its end.
    double weight = 1;                ///< Of its share where it meets others on a link.
    /// In which it needs a place while it moves, and the device whose starts say who comes first
    /// there.
    struct Queue {
      std::uint32_t index = 0;
      transfer::DeviceId device;
      /// It moves while fewer than these come before it; 0: as `queue_places` says.
      std::size_t places = 0;
    };
    std::optional<Queue> queue;
    /// Of a flow that crosses the network straight from the queue's device: the size of its
    /// messages, if receivers keep them before they have started the transfer; else 0.
    double eager_chunk = 0;
    /// Gets it inside its host, in no time, once it and `from`, which is one of `devices`, have
    /// started the transfer.
    struct Behind {
      transfer::DeviceId device;
      transfer::DeviceId from;
    };
    std::vector<Behind> behind;
  };

  /// By Transfer::op; in the order in which they compete.
  std::map<std::uint32_t, std::vector<Movement>> movements;
  std::vector<double> link_rates;  ///< Bytes a second.
  /// How many movements of a queue may be under way.
  std::vector<std::size_t> queue_places;
  /// Bytes that a device keeps at most of another one's transfers that it has not started. A
  /// message beyond that stays with its sender, with all that follow in its flow, until the
  /// transfer is started.
  double eager_budget = transfer::Wire::kEagerBudget;
};

/// What is not known of a network by measurement.
struct TrafficOptions {
  /// What a device has of its host's link against the device before it on that host.
  double next_device = 0.9;
};

/// The traffic of programs that were compiled together: a link each way per host (egress of host h:
/// 2h, ingress: 2h + 1), a queue per device as the executor keeps it (transfer::EgressRule, unless
/// the plan says how many places). Links inside hosts are free, and so are transfers that the
/// devices' library carries.
///
/// The devices of a host do not share its link quite alike: each gets a tenth less than the one
/// before it. TCP connections through one queue share by their windows, which differ and keep doing
/// so. Were all alike, replicas would stay in step for ever, and wait for each other's transfers;
/// real ones meet less from one microbatch to the next. The tenth was fitted to measured steps;
/// tests/bench/forecast_fit says how it does on steps that it was not fitted to. Throws
/// Error(kInvalidArgument) if the network lacks a host.
Traffic traffic_of(const std::vector<Program>& programs, const transfer::Topology& topology,
                   const transfer::Network& network, const TrafficOptions& options = {});

/// Seconds for which the busiest direction of a host's link is busy in one step: the bytes that the
/// programs' transfers send through it, over its rate. No order of the same transfers makes a step
/// shorter. Throws what traffic_of() throws.
double busiest_link_seconds(const std::vector<Program>& programs,
                            const transfer::Topology& topology, const transfer::Network& network);

}  // namespace weft::mesh
