#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/mesh_owners.h"

namespace weft::test {

inline constexpr actors::ProcessId kOwner{9};

/// Owners of which kOwner is registered as "run r". Records the notifications.
class RecordedOwners final : public actors::MeshOwners {
 public:
  std::optional<std::uint64_t> registration(actors::ProcessId process) const override {
    return process == kOwner ? std::optional<std::uint64_t>(1) : std::nullopt;
  }
  std::string name_of(actors::ProcessId process) const override {
    return process == kOwner ? "run r" : "";
  }
  std::optional<actors::ProcessRef> process_of(actors::ProcessId) const override {
    return std::nullopt;
  }
  bool is_keeper(actors::ProcessId) const override { return false; }
  bool any_away() const override { return false; }
  void notify_meshes_failed(actors::ProcessId owner,
                            const std::vector<actors::MeshFailure>& failed) override {
    if (owner == kOwner) failures.insert(failures.end(), failed.begin(), failed.end());
  }
  void record_devices(actors::ProcessId, const std::vector<actors::RunDevice>& added) override {
    devices.insert(devices.end(), added.begin(), added.end());
  }

  std::vector<actors::MeshFailure> failures;
  std::vector<actors::RunDevice> devices;
};

}  // namespace weft::test
