#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// Cost of a plan, in bytes of payload.
struct PlanStats {
  std::uint64_t bytes_between_hosts = 0;
  /// Lower bound of any plan: each byte enters once each host that needs it and has no holder.
  std::uint64_t minimum_between_hosts = 0;
  std::uint64_t bytes_inside_hosts = 0;
  /// Copies inside devices, from source shard to destination shard.
  std::uint64_t bytes_copied = 0;
  std::uint64_t busiest_host_egress = 0;
  std::uint64_t busiest_host_ingress = 0;
  std::vector<std::uint64_t> sent_by_device;
  std::vector<std::uint64_t> received_by_device;

  friend bool operator==(const PlanStats&, const PlanStats&) = default;
  static constexpr auto fields = weft::fields(
      &PlanStats::bytes_between_hosts, &PlanStats::minimum_between_hosts,
      &PlanStats::bytes_inside_hosts, &PlanStats::bytes_copied, &PlanStats::busiest_host_egress,
      &PlanStats::busiest_host_ingress, &PlanStats::sent_by_device, &PlanStats::received_by_device);
};

PlanStats plan_stats(const ReshardPlan& plan);

/// Formats the statistics, such as "1.5 MiB between hosts (minimum 1 MiB), 512 KiB inside, busiest
/// egress 768 KiB, ingress 768 KiB".
std::string to_string(const PlanStats& stats);

}  // namespace weft::transfer
