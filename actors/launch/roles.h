#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch/protection.h"
#include "actors/launch/role_arguments.h"
#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

class System;

inline constexpr std::string_view kListensAt = "listens at ";

struct HeadRole {
  Address listen{"127.0.0.1", 0};
  std::string state_directory;
  /// Where a parent reads (LastWords) kListensAt and its address once it listens, or what ended it
  /// before that; may be empty.
  std::string said;
  /// of the parent's choice; none: the one in its state folder, which is made if there is none
  Secret token;
  LogLevel log_level = LogLevel::kInfo;
  /// How long hosts, runs and the head wait for each other.
  Nanoseconds grace = std::chrono::seconds(60);
  /// What the state knows of hosts and runs does not count: nothing of it lives.
  bool begins_anew = false;
  /// No TLS beyond loopback.
  bool insecure = false;
  bool has_parent = false;  ///< Started by a process of Weft, which ends it.
  /// For what the person at the terminal should read. `certificate`: the SHA-256 of the head's;
  /// empty where it needs none.
  std::function<void(const Address&, const std::filesystem::path& token_file,
                     const std::string& certificate)>
      on_listening = {};
};
/// Runs a head until it is told to stop, or a signal comes: see actors/decisions.md. Returns the
/// exit status.
int serve_head(const HeadRole& role);

struct AgentRole {
  Address head;
  Secret token;
  std::string name;
  std::uint32_t devices = 1;
  std::string log_directory;
  bool has_parent = false;  ///< started by somebody who reaps it and tells the head
  LogLevel log_level = LogLevel::kInfo;
  Protection protection = {};
  /// serves the role "run", for runs that somebody leaves to the cluster; empty: none can be
  std::filesystem::path supervisor = {};
  /// Without a parent: how long a signal leaves drivers to finish a step and save.
  Nanoseconds grace = std::chrono::seconds(25);
};
/// Joins the head, and runs the host's agent until the cluster stops, its parent ends it, a signal
/// comes and its devices are let go, or the head has been gone for its grace while nothing runs
/// here that anybody uses (status 1).
int serve_agent(const AgentRole& role);

/// Runs a device process: `provide` tells the system which actors this binary can host. Ends when
/// its agent says so or is gone.
int serve_device(const RoleArguments& arguments, const std::function<void(System&)>& provide);

/// The environment variable that tells a device process its log level.
inline constexpr const char* kLogLevelVariable = "WEFT_LOG_LEVEL";

/// Serves the roles that are the same in every executable, `head` and `agent`, when `arguments` ask
/// for one of them.
std::optional<int> serve_cluster_role(const std::vector<std::string>& arguments);
std::vector<std::string> to_arguments(const HeadRole& role);
std::vector<std::string> to_arguments(const AgentRole& role);

}  // namespace weft::actors
