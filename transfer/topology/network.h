#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// One network interface of a host: full duplex. Bytes of payload per second in each direction
/// (goodput, not the nominal rate).
struct Nic {
  double egress = 0;
  double ingress = 0;
  friend bool operator==(const Nic&, const Nic&) = default;
  static constexpr auto fields = weft::fields(&Nic::egress, &Nic::ingress);
};

/// What the links between hosts carry: the planner's picture of the network. A value; the same on
/// every process of a run.
///
/// The core is taken as non-blocking: only the hosts' own interfaces limit. Links inside a host are
/// taken as free.
struct Network {
  struct HostLinks {
    std::vector<Nic> nics;
    double egress() const;
    double ingress() const;
    friend bool operator==(const HostLinks&, const HostLinks&) = default;
    static constexpr auto fields = weft::fields(&HostLinks::nics);
  };
  std::vector<HostLinks> hosts;  ///< Indexed by HostId.
  /// From handing a small message to one host until the next host can pass it on.
  double hop_seconds = 150e-6;

  /// Throws Error(kInvalidArgument) for a host that is not in the network.
  const HostLinks& host(HostId id) const;
  std::size_t num_hosts() const { return hosts.size(); }
  /// Every host with one interface of that speed, both ways.
  static Network uniform(std::size_t hosts, double bytes_per_second);
  /// Throws Error(kInvalidArgument) when a host has no interface, or one without speed.
  void validate() const;

  friend bool operator==(const Network&, const Network&) = default;
  static constexpr auto fields = weft::fields(&Network::hosts, &Network::hop_seconds);
};

/// What a host was seen to send while it always had something to send: bytes of payload per second,
/// over all its interfaces.
struct ObservedEgress {
  HostId host;
  double bytes_per_second = 0;
  friend bool operator==(const ObservedEgress&, const ObservedEgress&) = default;
  static constexpr auto fields =
      weft::fields(&ObservedEgress::host, &ObservedEgress::bytes_per_second);
};

/// `network` with the egress of those hosts changed to what was observed, where that differs by
/// more than 20 %: less is noise, and plans should not change with it. Interfaces of a host keep
/// their proportions. What a host sends can also be held back by its receivers: pass on only what
/// was seen while nothing else was the bottleneck. Throws Error(kInvalidArgument) for a host that
/// is not in the network, or a rate that is not more than nothing.
Network updated(const Network& network, std::span<const ObservedEgress> observed);

/// "4 hosts: 114.0 MiB/s; host 2: 45.6 MiB/s out, 114.0 MiB/s in".
std::string to_string(const Network& network);

}  // namespace weft::transfer
