#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/agent/run_end.h"
#include "actors/message/ids.h"
#include "actors/supervision/exit_evidence.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// One spawn of a mesh: the name, and how often that name has been spawned in this cluster.
struct MeshKey {
  std::string name;
  std::uint64_t epoch = 0;
  friend auto operator<=>(const MeshKey&, const MeshKey&) = default;
  /// "front.3", and what it means: names have no dots.
  std::string text() const { return name + "." + std::to_string(epoch); }
  static MeshKey of_text(const std::string& text) {
    const auto dot = text.rfind('.');
    return {text.substr(0, dot), std::stoull(text.substr(dot + 1))};
  }
  static constexpr auto fields = weft::fields(&MeshKey::name, &MeshKey::epoch);
};

/// A device of a host.
struct HostDevice {
  std::string host;
  std::uint32_t device = 0;  ///< index on its host
  friend bool operator==(const HostDevice&, const HostDevice&) = default;
  static constexpr auto fields = weft::fields(&HostDevice::host, &HostDevice::device);
};

/// One process to start.
struct DeviceLaunch {
  std::uint32_t rank = 0;
  std::uint32_t device = 0;
  std::string label;  ///< "front[data=0,tensor=1]"
  static constexpr auto fields =
      weft::fields(&DeviceLaunch::rank, &DeviceLaunch::device, &DeviceLaunch::label);
};

/// The part of a mesh that one host starts.
struct LaunchRequest {
  MeshKey key;
  std::uint64_t term = 0;     ///< of the head that asks
  std::string binary;         ///< path of the executable on this host
  std::string binary_sha256;  ///< of the owner's own; a file with another one is refused
  std::vector<std::string> environment;
  std::vector<DeviceLaunch> devices;
  std::uint64_t memory_cap = 0;  ///< of each process, in bytes; 0: none
  ProcessId owner;               ///< the program that owns the mesh
  static constexpr auto fields =
      weft::fields(&LaunchRequest::key, &LaunchRequest::term, &LaunchRequest::binary,
                   &LaunchRequest::binary_sha256, &LaunchRequest::environment,
                   &LaunchRequest::devices, &LaunchRequest::memory_cap, &LaunchRequest::owner);
};

/// A device process that is up and can be called.
struct DeviceProcess {
  std::uint32_t rank = 0;
  HostDevice place;
  ProcessRef process;
  std::int64_t pid = 0;
  std::string log_file;
  MemoryCap cap = {};     ///< on its memory, and what holds it to that
  ProcessRef agent = {};  ///< its parent
  static constexpr auto fields = weft::fields(
      &DeviceProcess::rank, &DeviceProcess::place, &DeviceProcess::process, &DeviceProcess::pid,
      &DeviceProcess::log_file, &DeviceProcess::cap, &DeviceProcess::agent);
};

/// A device process of an agent.
struct HostedDevice {
  MeshKey key;
  DeviceProcess process;  ///< nobody yet while it starts
  static constexpr auto fields = weft::fields(&HostedDevice::key, &HostedDevice::process);
};

/// One of an agent's device processes has ended.
struct DeathReport {
  MeshKey key;
  std::uint32_t rank = 0;
  std::uint32_t device = 0;
  ExitEvidence evidence;
  static constexpr auto fields = weft::fields(&DeathReport::key, &DeathReport::rank,
                                              &DeathReport::device, &DeathReport::evidence);
};

/// A program that owned meshes has ended while no head heard it.
struct OwnerEnd {
  ProcessId owner;
  RunEnd end;
  static constexpr auto fields = weft::fields(&OwnerEnd::owner, &OwnerEnd::end);
};

/// What an agent runs, and what has ended of it: for a head that it has just reached.
struct HostedDevices {
  std::vector<HostedDevice> running;
  std::vector<DeathReport> deaths;     ///< of meshes that have not been stopped
  std::vector<OwnerEnd> owners_ended;  ///< the last ones that have told this agent
  static constexpr auto fields =
      weft::fields(&HostedDevices::running, &HostedDevices::deaths, &HostedDevices::owners_ended);
};

}  // namespace weft::actors
