#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/agent/detached_run.h"
#include "actors/agent/log_messages.h"
#include "actors/message/ids.h"
#include "actors/net/address.h"

namespace weft::actors {

struct AgentConfig {
  std::string name;
  Address address;  ///< Address at which this process listens.
  std::filesystem::path log_directory;
  std::filesystem::path hash_directory;  ///< Cache of binary_sha256().
  bool insecure = false;                 ///< No TLS in device processes.
  /// Executable that serves the role "run", which starts detached runs. Empty: this agent cannot
  /// start runs.
  std::filesystem::path run_executable = {};
  std::vector<std::string> run_arguments = {};  ///< Address of the head, and how to connect to it.
  /// Folder in which ProgramCache keeps the programs of device processes. Empty: they are not kept.
  std::filesystem::path program_directory = {};
};

/// Callbacks of an agent. Called on the agent's thread.
struct AgentEvents {
  /// Called when a device process dies, or counts as dead because it is stopped or silent. `head`:
  /// recipient of the report.
  std::function<void(const ProcessRef& head, const DeathReport&)> on_death;
  /// Called when a detached run ends.
  std::function<void(const ProcessRef& head, const DetachedRunExit&)> on_run_end = {};
  /// Called when an owner of device processes tells this agent that it has ended.
  std::function<void(const ProcessRef& head, const OwnerExit&)> on_owner_end = {};
  /// Called with the number of device processes and runs when it changes.
  std::function<void(std::size_t)> on_processes;
  std::function<void(const std::string& reason)> on_shut_down;
  /// Called when a process is about to write to a log of `size` bytes. May be empty.
  std::function<void(const LogId&, std::uint64_t size)> on_log = {};
};

}  // namespace weft::actors
