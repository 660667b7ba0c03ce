#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"

namespace weft::actors {

// What a head writes down of its cluster, for the head of the next term.

struct HostRow {
  HostOffer offer;
  ProcessRef agent;
  static constexpr auto fields = weft::fields(&HostRow::offer, &HostRow::agent);
};

struct OwnerRow {
  OwnerOffer offer;
  ProcessRef process;
  static constexpr auto fields = weft::fields(&OwnerRow::offer, &OwnerRow::process);
};

struct MeshRow {
  MeshRequest request;
  ProcessId owner;
  std::vector<HostDevice> places;
  std::set<std::uint32_t> lost;  ///< ranks whose host is gone; another of its name may have joined
  std::set<std::uint32_t> dead;  ///< ranks whose process is gone, or counts as gone
  /// by rank; empty while it starts, of process 0 where it is to be renewed
  std::vector<DeviceProcess> processes;
  std::vector<std::string> devices;  ///< by rank, what they are; empty until the owner says so
  std::optional<Incident> incident;  ///< It has failed.
  bool ending = false;               ///< nobody's any more: only its devices are still taken
  static constexpr auto fields = weft::fields(
      &MeshRow::request, &MeshRow::owner, &MeshRow::places, &MeshRow::lost, &MeshRow::dead,
      &MeshRow::processes, &MeshRow::devices, &MeshRow::incident, &MeshRow::ending);
};

/// Throw Error(kDataLoss) for what no head has written, such as a rank that the mesh does not have.
void check_row(const HostRow& row);
void check_row(const MeshRow& row);

}  // namespace weft::actors
