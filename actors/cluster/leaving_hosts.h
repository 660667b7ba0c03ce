#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "actors/cluster/head_link.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Hosts that leave the cluster while their devices are in use by this owner. Its devices there are
/// kept until release() or the end of the agent's grace; without on_leave() they are released at
/// once. Any thread.
class LeavingHosts final {
 public:
  /// Borrows `head`, which learns of releases.
  explicit LeavingHosts(const HeadLink& head) : head_(head) {}

  /// Keeps devices on leaving hosts from now on. `saves` asks the owner to save its state first, on
  /// a thread that must not block.
  void on_leave(std::function<void(const std::string& text)> saves);
  /// Releases devices on leaving hosts. Their data is lost from now on, as after a death.
  void release();
  /// Adds a host, for a Cluster. `text`: what happened.
  void add(const std::string& host, const std::string& text);

 private:
  const HeadLink& head_;
  Mutex mutex_;
  std::set<std::string> hosts_;                    // guarded by mutex_: hosts to release
  std::function<void(const std::string&)> saves_;  // guarded by mutex_
};

}  // namespace weft::actors
