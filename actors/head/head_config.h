#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/message/ids.h"
#include "actors/net/address.h"
#include "core/base/clock.h"

namespace weft::actors {

struct HeadConfig {
  Address address;  ///< Address at which this process listens.
  std::filesystem::path state_directory;
  /// Grace period for hosts and owners that do not answer, and for a missing head.
  Nanoseconds grace = std::chrono::seconds(60);
  /// True: hosts, owners and meshes of the saved state do not live any more, and are ignored.
  bool ignore_saved_members = false;
  /// True if the head ends with its machine, as the cluster of `weft run`. It never syncs its state
  /// then.
  bool ephemeral = false;
};

struct HeadEvents {
  std::function<void(const ClusterEvent&)> on_event;       ///< Called with each event, to log it.
  std::function<void(const std::string&)> on_warning;      ///< Called with warnings, to log them.
  std::function<void(const std::string& reason)> on_stop;  ///< Called when the process should end.
  /// Replaces the cluster's token. `members` may still prove the former one for a while.
  std::function<TokenRotation(const std::vector<ProcessId>& members)> rotate_token = {};
  /// Starts the keeper of actors that outlive runs, unless that was done. Must not block.
  std::function<void()> start_keeper = {};
};

}  // namespace weft::actors
