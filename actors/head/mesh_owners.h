#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/head/run_messages.h"
#include "actors/message/ids.h"

namespace weft::actors {

/// Owners of meshes, as the head's meshes see them. An owner is a program, such as the driver of a
/// run.
class MeshOwners {
 public:
  virtual ~MeshOwners() = default;
  /// Returns a number that grows when the owner registers again, so that requests of its earlier
  /// registrations have no receiver. Empty if the process is no owner.
  virtual std::optional<std::uint64_t> registration(ProcessId process) const = 0;
  /// Returns "run quickstart"; empty if the process is no owner.
  virtual std::string name_of(ProcessId process) const = 0;
  /// Returns the owner's process if it answers the head.
  virtual std::optional<ProcessRef> process_of(ProcessId process) const = 0;
  /// Returns whether an owner is the keeper, whose actors outlive runs.
  virtual bool is_keeper(ProcessId process) const = 0;
  /// Returns whether an owner is away, so that its meshes may end soon.
  virtual bool any_away() const = 0;
  /// Tells the owner, if it is connected, that these meshes have failed.
  virtual void notify_meshes_failed(ProcessId owner, const std::vector<MeshFailure>& failures) = 0;
  /// Adds devices to the record of the owner's run.
  virtual void record_devices(ProcessId owner, const std::vector<RunDevice>& devices) = 0;
};

}  // namespace weft::actors
