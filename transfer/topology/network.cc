#include "transfer/topology/network.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"

namespace weft::transfer {
namespace {

std::string rate(double bytes_per_second) {
  return fmt::format("{:.1f} MiB/s", bytes_per_second / (1 << 20));
}

std::string describe(const Network::HostLinks& links) {
  std::string text =
      links.egress() == links.ingress()
          ? rate(links.egress())
          : fmt::format("{} out, {} in", rate(links.egress()), rate(links.ingress()));
  if (links.nics.size() > 1) text += fmt::format(" over {} interfaces", links.nics.size());
  return text;
}

}  // namespace

double Network::HostLinks::egress() const {
  double sum = 0;
  for (const Nic& nic : nics) sum += nic.egress;
  return sum;
}

double Network::HostLinks::ingress() const {
  double sum = 0;
  for (const Nic& nic : nics) sum += nic.ingress;
  return sum;
}

const Network::HostLinks& Network::host(HostId id) const {
  if (id.value() >= hosts.size())
    throw_error(ErrorCode::kInvalidArgument, "host {} is not in the network, which has {} hosts",
                id, hosts.size());
  return hosts[id.value()];
}

Network Network::uniform(std::size_t hosts, double bytes_per_second) {
  Network network;
  network.hosts.assign(hosts, HostLinks{{Nic{bytes_per_second, bytes_per_second}}});
  return network;
}

void Network::validate() const {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].nics.empty())
      throw_error(ErrorCode::kInvalidArgument, "host {} has no network interface", i);
    for (const Nic& nic : hosts[i].nics)
      if (!(nic.egress > 0) || !(nic.ingress > 0))
        throw_error(ErrorCode::kInvalidArgument,
                    "host {} has an interface of {} out and {} in; both rates must be positive", i,
                    rate(nic.egress), rate(nic.ingress));
  }
}

Network with_measured_egress(const Network& network, std::span<const MeasuredEgress> observed) {
  constexpr double kNoise = 0.2;
  Network result = network;
  for (const MeasuredEgress& seen : observed) {
    const double known = network.host(seen.host).egress();
    if (!(seen.bytes_per_second > 0))
      throw_error(ErrorCode::kInvalidArgument,
                  "host {} has a measured egress of {}; the rate must be positive; omit hosts that "
                  "sent nothing",
                  seen.host, rate(seen.bytes_per_second));
    const double change = seen.bytes_per_second / known;
    if (std::abs(change - 1) <= kNoise) continue;
    for (Nic& nic : result.hosts[seen.host.value()].nics) nic.egress *= change;
  }
  return result;
}

std::string to_string(const Network& network) {
  if (network.hosts.empty()) return "no hosts";
  std::string text =
      fmt::format("{} hosts: {}", network.hosts.size(), describe(network.hosts.front()));
  for (std::size_t i = 1; i < network.hosts.size(); ++i)
    if (network.hosts[i] != network.hosts.front())
      text += fmt::format("; host {}: {}", i, describe(network.hosts[i]));
  return text;
}

}  // namespace weft::transfer
