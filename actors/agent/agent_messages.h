#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/agent/run_result.h"
#include "actors/message/ids.h"
#include "actors/supervision/exit_report.h"
#include "actors/supervision/incident.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Identity of one epoch of a mesh. The epoch grows with each spawn or renewal of that name in this
/// cluster.
struct MeshKey {
  std::string name;
  std::uint64_t epoch = 0;
  friend auto operator<=>(const MeshKey&, const MeshKey&) = default;
  /// Returns "front.3". Names have no dots.
  std::string text() const { return name + "." + std::to_string(epoch); }
  static MeshKey of_text(const std::string& text) {
    const auto dot = text.rfind('.');
    return {text.substr(0, dot), std::stoull(text.substr(dot + 1))};
  }
  static constexpr auto fields = weft::fields(&MeshKey::name, &MeshKey::epoch);
};

/// Device of a host.
struct HostDevice {
  std::string host;
  std::uint32_t device = 0;  ///< Index on its host, or kNoDevice.
  friend bool operator==(const HostDevice&, const HostDevice&) = default;
  /// Returns "worker0 device 1"; "worker0" without a device.
  std::string text() const {
    return device == kNoDevice ? host : host + " device " + std::to_string(device);
  }
  static constexpr auto fields = weft::fields(&HostDevice::host, &HostDevice::device);
};

/// Device process to start.
struct DeviceLaunch {
  std::uint32_t rank = 0;
  std::uint32_t device = 0;  ///< Index on its host, or kNoDevice.
  std::string label;         ///< "front[data=0,tensor=1]"
  static constexpr auto fields =
      weft::fields(&DeviceLaunch::rank, &DeviceLaunch::device, &DeviceLaunch::label);
};

/// Part of a mesh that one host starts.
struct LaunchRequest {
  MeshKey key;
  std::uint64_t term = 0;     ///< Term of the requesting head.
  std::string binary;         ///< path of the executable on this host
  std::string binary_sha256;  ///< SHA-256 of the owner's file; others are refused.
  std::vector<std::string> environment;
  std::vector<DeviceLaunch> devices;
  std::uint64_t memory_cap = 0;  ///< Cap of each process in bytes; 0: none.
  ProcessId owner;               ///< Program that owns the mesh.
  std::uint64_t run = 0;         ///< See SystemOptions::run.
  /// True for a process that actors of several meshes share. It may be without actors.
  bool is_shared_process = false;
  static constexpr auto fields =
      weft::fields(&LaunchRequest::key, &LaunchRequest::term, &LaunchRequest::binary,
                   &LaunchRequest::binary_sha256, &LaunchRequest::environment,
                   &LaunchRequest::devices, &LaunchRequest::memory_cap, &LaunchRequest::owner,
                   &LaunchRequest::run, &LaunchRequest::is_shared_process);
};

/// Device process that can be called.
struct DeviceProcess {
  std::uint32_t rank = 0;
  HostDevice place;
  ProcessRef process;
  std::int64_t pid = 0;
  std::string log_file;
  MemoryCap cap = {};     ///< Memory cap and what enforces it.
  ProcessRef agent = {};  ///< Parent of the process.
  static constexpr auto fields = weft::fields(
      &DeviceProcess::rank, &DeviceProcess::place, &DeviceProcess::process, &DeviceProcess::pid,
      &DeviceProcess::log_file, &DeviceProcess::cap, &DeviceProcess::agent);
};

/// Device process of an agent.
struct RunningDevice {
  MeshKey key;
  DeviceProcess process;  ///< `process` is 0 until it is ready.
  static constexpr auto fields = weft::fields(&RunningDevice::key, &RunningDevice::process);
};

/// Report that a device process has ended.
struct DeathReport {
  MeshKey key;
  std::uint32_t rank = 0;
  std::uint32_t device = 0;
  ExitReport evidence;
  static constexpr auto fields = weft::fields(&DeathReport::key, &DeathReport::rank,
                                              &DeathReport::device, &DeathReport::evidence);
};

/// End of a program that owned meshes and could not report it to a head.
struct OwnerExit {
  ProcessId owner;
  RunResult end;
  static constexpr auto fields = weft::fields(&OwnerExit::owner, &OwnerExit::end);
};

/// Report of an agent to a head that it joins: what runs, and what has ended.
struct AgentReport {
  std::vector<RunningDevice> running;
  std::vector<DeathReport> deaths;      ///< Deaths in meshes that have not been stopped.
  std::vector<OwnerExit> owners_ended;  ///< Latest ends that owners told this agent.
  static constexpr auto fields =
      weft::fields(&AgentReport::running, &AgentReport::deaths, &AgentReport::owners_ended);
};

}  // namespace weft::actors
