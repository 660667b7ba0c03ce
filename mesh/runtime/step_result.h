#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mesh/runtime/step.h"

namespace weft::mesh {

/// Result of a step for the driver: the combined reports of all devices.
struct StepResult {
  int devices = 1;       ///< Number of devices that have reported.
  double loss = 0;       ///< Sum by microbatch, then by rank.
  double grad_norm = 0;  ///< If not finite, no device has updated its parameters.
  std::optional<std::uint32_t> first_nonfinite_parameter;  ///< See StepReport.
  double seconds = 0;                                      ///< Seconds of the slowest device.
  /// Sum over devices of the time in which resharded bytes were arriving.
  double transfer_seconds = 0;
  /// Part of it in which the receiving device waited.
  double exposed_transfer_seconds = 0;
  /// Sum over devices of the time in which they waited, including bubbles.
  double wait_seconds = 0;
  std::uint64_t reshard_bytes = 0;
  std::uint64_t collective_bytes = 0;
  std::vector<double> egress_rates;  ///< StepReport::egress_rate by device.
  /// Times by stage, then kind. `seconds`: of the slowest device of the stage's mesh.
  /// `collective_seconds`: of the device that waited least, as the others also waited for it.
  std::vector<ActionTime> action_times;
  /// Times by op, of the device that waited longest for the last byte.
  std::vector<EdgeTime> edge_times;
  std::string note;  ///< Note for the user; mostly empty.

  /// Returns the share of the transfer time that computation hid: 1 - exposed / all, or 1 if
  /// nothing was transferred.
  double hidden_share() const {
    return transfer_seconds > 0 ? 1 - exposed_transfer_seconds / transfer_seconds : 1;
  }
};

/// Combines reports, which are in the order of devices: mesh by mesh, rank by rank.
StepResult combine(const std::vector<StepReport>& reports);

}  // namespace weft::mesh
