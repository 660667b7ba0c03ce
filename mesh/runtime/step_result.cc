#include "mesh/runtime/step_result.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::mesh {

namespace {

void combine(const std::vector<ActionTime>& times, std::vector<ActionTime>& result) {
  for (const ActionTime& time : times) {
    const auto same = [&](const ActionTime& other) {
      return other.stage == time.stage && other.kind == time.kind;
    };
    const auto found = std::ranges::find_if(result, same);
    if (found == result.end()) {
      result.push_back(time);
      continue;
    }
    found->seconds = std::max(found->seconds, time.seconds);
    found->collective_seconds = std::min(found->collective_seconds, time.collective_seconds);
  }
}

void combine(const std::vector<EdgeTime>& times, std::vector<EdgeTime>& result) {
  for (const EdgeTime& time : times) {
    const auto found = std::ranges::find(result, time.op, &EdgeTime::op);
    if (found == result.end()) result.push_back(time);
    else found->seconds = std::max(found->seconds, time.seconds);
  }
}

}  // namespace

StepResult combine(const std::vector<StepReport>& reports) {
  StepResult result;
  result.devices = std::max<int>(1, reports.size());
  std::size_t microbatches = 0;
  for (const StepReport& report : reports) {
    microbatches = std::max(microbatches, report.losses.size());
    // Keeps a NaN, which std::max() would drop.
    if (!(report.grad_norm <= result.grad_norm) && !std::isnan(result.grad_norm))
      result.grad_norm = report.grad_norm;
    if (!result.first_nonfinite_parameter)
      result.first_nonfinite_parameter = report.first_nonfinite_parameter;
    result.seconds = std::max(result.seconds, report.step_seconds);
    result.transfer_seconds += report.transfer_seconds;
    result.exposed_transfer_seconds += report.exposed_transfer_seconds;
    result.wait_seconds += report.wait_seconds;
    result.reshard_bytes += report.reshard_bytes;
    result.collective_bytes += report.collective_bytes;
    result.egress_rates.push_back(report.egress_rate);
    combine(report.action_times, result.action_times);
    combine(report.edge_times, result.edge_times);
  }
  std::ranges::sort(result.action_times, {},
                    [](const ActionTime& time) { return std::pair(time.stage, time.kind); });
  std::ranges::sort(result.edge_times, {}, &EdgeTime::op);
  for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (const StepReport& report : reports) {
      if (microbatch < report.losses.size()) result.loss += report.losses[microbatch];
    }
  }
  return result;
}

}  // namespace weft::mesh
