#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Network interface of a host, full duplex. Payload bytes per second in each direction (goodput,
/// not the nominal rate).
struct Nic {
  double egress = 0;
  double ingress = 0;
  friend bool operator==(const Nic&, const Nic&) = default;
  static constexpr auto fields = weft::fields(&Nic::egress, &Nic::ingress);
};

/// Capacities of the links between hosts, as the planner assumes them. A value; the same on every
/// process of a run.
///
/// The core network is assumed non-blocking: only the hosts' interfaces limit. Links inside a host
/// are assumed free.
struct Network {
  struct HostLinks {
    std::vector<Nic> nics;
    double egress() const;
    double ingress() const;
    friend bool operator==(const HostLinks&, const HostLinks&) = default;
    static constexpr auto fields = weft::fields(&HostLinks::nics);
  };
  std::vector<HostLinks> hosts;  ///< Links of each host, indexed by HostId.
  /// Time from sending a small message to one host until that host can forward it.
  double hop_seconds = 150e-6;

  /// Returns the links of a host. Throws Error(kInvalidArgument) if it is not in the network.
  const HostLinks& host(HostId id) const;
  std::size_t num_hosts() const { return hosts.size(); }
  /// Returns a network in which every host has one interface of that speed in both directions.
  static Network uniform(std::size_t hosts, double bytes_per_second);
  /// Throws Error(kInvalidArgument) if a host has no interface, or one without speed.
  void validate() const;

  friend bool operator==(const Network&, const Network&) = default;
  static constexpr auto fields = weft::fields(&Network::hosts, &Network::hop_seconds);
};

/// Measured egress of a host while it always had something to send: payload bytes per second over
/// all its interfaces.
struct MeasuredEgress {
  HostId host;
  double bytes_per_second = 0;
  friend bool operator==(const MeasuredEgress&, const MeasuredEgress&) = default;
  static constexpr auto fields =
      weft::fields(&MeasuredEgress::host, &MeasuredEgress::bytes_per_second);
};

/// Returns `network` with the measured egress of the hosts in `observed`. Ignores differences up to
/// 20 %, which are noise and should not change plans. A host's interfaces keep their proportions.
/// Receivers can also slow a host down, so pass only rates measured while nothing else was the
/// bottleneck. Throws Error(kInvalidArgument) for a host that is not in the network and for rates
/// that are not positive.
Network with_measured_egress(const Network& network, std::span<const MeasuredEgress> observed);

/// Formats a network, such as "4 hosts: 114.0 MiB/s; host 2: 45.6 MiB/s out, 114.0 MiB/s in".
std::string to_string(const Network& network);

}  // namespace weft::transfer
