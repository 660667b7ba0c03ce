#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/access/connection_security.h"
#include "actors/agent/resources.h"
#include "actors/launch/role_arguments.h"
#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

class System;

inline constexpr std::string_view kListeningPrefix = "listens at ";

struct HeadRole {
  Address listen{"127.0.0.1", 0};
  std::string state_directory;
  /// Path of the parent's ChildReport, for kListeningPrefix and the address once it listens, or for
  /// the error that ended it before. May be empty.
  std::string report_path;
  /// Token of the parent's choice; empty: the one in the state folder, which is made if missing.
  Secret token;
  LogLevel log_level = LogLevel::kInfo;
  /// Time for which hosts, runs and the head wait for each other.
  Nanoseconds grace = std::chrono::seconds(60);
  /// Ignores the hosts and runs in the state: none of them lives.
  bool ignore_saved_members = false;
  /// Disables TLS beyond loopback.
  bool insecure = false;
  bool has_parent = false;  ///< Started by a process of Weft, which ends it.
  /// Called once it listens, to inform the person at the terminal. `certificate`: SHA-256 of the
  /// head's certificate; empty if it needs none.
  std::function<void(const Address&, const std::filesystem::path& token_file,
                     const std::string& certificate)>
      on_listening = {};
};
/// Runs a head until it is told to stop, or a signal arrives: see actors/decisions.md. Returns the
/// exit status.
int serve_head(const HeadRole& role);

struct AgentRole {
  Address head;
  Secret token;
  std::string name;
  std::uint32_t devices = 1;
  std::string log_directory;
  bool has_parent = false;  ///< started by a process that reaps it and tells the head
  LogLevel log_level = LogLevel::kInfo;
  ConnectionSecurity protection = {};
  /// Executable that serves the role "run", for detached runs; empty: there can be none.
  std::filesystem::path supervisor = {};
  /// Time that a signal leaves drivers to finish a step and save, without a parent.
  Nanoseconds grace = std::chrono::seconds(25);
  HostCapacity capacity = {};
};
/// Joins the head and runs the host's agent. Ends when the cluster stops, its parent ends it, a
/// signal has come and its devices are let go, or the head has been away for its grace and nothing
/// here is in use (status 1).
int serve_agent(const AgentRole& role);

/// Runs a device process. `provide` registers the actors that this binary can host. Ends when its
/// agent says so or is lost.
int serve_device(const RoleArguments& arguments, const std::function<void(System&)>& provide);

/// Environment variable with the log level of a device process.
inline constexpr const char* kLogLevelVariable = "WEFT_LOG_LEVEL";
/// Environment variables of a device process with SystemOptions::object_memory and object_folder.
inline constexpr const char* kObjectMemoryVariable = "WEFT_OBJECT_MEMORY";
inline constexpr const char* kObjectFolderVariable = "WEFT_OBJECT_FOLDER";

/// Serves the roles `head` and `agent`, which are the same in every executable. nullopt if
/// `arguments` ask for neither.
std::optional<int> serve_cluster_role(const std::vector<std::string>& arguments);
std::vector<std::string> to_arguments(const HeadRole& role);
std::vector<std::string> to_arguments(const AgentRole& role);

}  // namespace weft::actors
