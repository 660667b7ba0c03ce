#include "mesh/plan/observed_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"

namespace weft::mesh {
namespace {

/// Returns whether the device sends to other meshes during training.
bool sends(const TrainingPlan& plan, transfer::DeviceId device) {
  for (const Program& program : plan.train.programs) {
    if (program.device != device) continue;
    const auto leaves = [](const Transfer& one) {
      return one.kind == TransferPurpose::kReshard && one.bytes_sent() > 0;
    };
    return std::ranges::any_of(program.transfers, leaves);
  }
  return false;
}

}  // namespace

transfer::Network observed_network(const TrainingPlan& plan, std::span<const double> egress_rates) {
  WEFT_CHECK(egress_rates.size() <= plan.topology.num_devices(), "{} rates for {} devices",
             egress_rates.size(), plan.topology.num_devices());
  std::vector<double> of_host(plan.network.num_hosts());
  std::vector<bool> in_part(of_host.size(), false);
  for (std::uint32_t device = 0; device < egress_rates.size(); ++device) {
    const std::uint32_t host = plan.topology.host_of(transfer::DeviceId(device)).value();
    of_host[host] += egress_rates[device];
    if (egress_rates[device] == 0 && sends(plan, transfer::DeviceId(device))) in_part[host] = true;
  }
  std::vector<transfer::MeasuredEgress> observed;
  for (std::uint32_t host = 0; host < of_host.size(); ++host) {
    if (of_host[host] > 0 && !in_part[host])
      observed.push_back({transfer::HostId(host), of_host[host]});
  }
  return transfer::with_measured_egress(plan.network, observed);
}

std::string describe_change(const TrainingPlan& plan, const transfer::Network& network) {
  std::string text;
  for (std::size_t host = 0; host < network.num_hosts(); ++host) {
    const double before = plan.network.hosts[host].egress(), now = network.hosts[host].egress();
    if (before == now) continue;
    text += fmt::format("{}{} sends {}/s where the plan counted on {}/s", text.empty() ? "" : ", ",
                        plan.hosts[host], format_bytes(static_cast<std::uint64_t>(now)),
                        format_bytes(static_cast<std::uint64_t>(before)));
  }
  return text;
}

}  // namespace weft::mesh
