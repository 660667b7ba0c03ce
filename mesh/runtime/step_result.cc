#include "mesh/runtime/step_result.h"

#include <algorithm>

namespace weft::mesh {

StepResult combine(const std::vector<StepReport>& reports) {
  StepResult result;
  std::size_t microbatches = 0;
  for (const StepReport& report : reports) {
    microbatches = std::max(microbatches, report.losses.size());
    result.grad_norm = std::max(result.grad_norm, report.grad_norm);
    result.seconds = std::max(result.seconds, report.step_seconds);
    result.transfer_seconds += report.transfer_seconds;
    result.exposed_transfer_seconds += report.exposed_transfer_seconds;
    result.wait_seconds += report.wait_seconds;
    result.reshard_bytes += report.reshard_bytes;
    result.collective_bytes += report.collective_bytes;
    result.egress_rates.push_back(report.egress_rate);
  }
  for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (const StepReport& report : reports) {
      if (microbatch < report.losses.size()) result.loss += report.losses[microbatch];
    }
  }
  return result;
}

}  // namespace weft::mesh
