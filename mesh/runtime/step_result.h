#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mesh/runtime/step.h"

namespace weft::mesh {

/// A step as the driver sees it: the reports of all devices together.
struct StepResult {
  int devices = 1;                                ///< That have reported.
  double loss = 0;                                ///< Added by microbatch, then by rank.
  double grad_norm = 0;                           ///< Not finite: no device has updated anything.
  std::optional<std::uint32_t> first_not_finite;  ///< See StepReport.
  double seconds = 0;                             ///< Of the slowest device.
  /// Sum over devices of the time in which resharded bytes were arriving.
  double transfer_seconds = 0;
  /// The part of it in which the receiving device stood still.
  double exposed_transfer_seconds = 0;
  /// Sum over devices of the time they stood still, bubbles included.
  double wait_seconds = 0;
  std::uint64_t reshard_bytes = 0;
  std::uint64_t collective_bytes = 0;
  std::vector<double> egress_rates;  ///< By device: StepReport::egress_rate.
  /// By stage, then kind. `seconds` of the slowest device of the stage's mesh, `collective_seconds`
  /// of the one that waited least: the others also waited for it.
  std::vector<ActionTime> action_times;
  /// By op; of the device that waited longest for the last byte.
  std::vector<EdgeTime> edge_times;
  std::string note;  ///< What the driver's user should know; mostly empty.

  /// Share of the transfer time that computation hid: 1 - exposed / all; 1 when nothing was
  /// transferred.
  double hidden_share() const {
    return transfer_seconds > 0 ? 1 - exposed_transfer_seconds / transfer_seconds : 1;
  }
};

/// Reports in the order of devices: mesh by mesh, rank by rank.
StepResult combine(const std::vector<StepReport>& reports);

}  // namespace weft::mesh
