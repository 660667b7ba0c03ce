#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/head/cluster_messages.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Receiver of the head's notifications in a program that owns meshes. Hosted by actors::Cluster
/// under the name "watcher". Its callbacks run on its thread.
class HeadNotifications final {
 public:
  struct Events {
    std::function<void(const MeshFailure&)> on_failure;  ///< Called when a mesh has failed.
    /// Called when the cluster stops by request.
    std::function<void(const std::string& reason)> on_stop;
    /// Called when this program is asked to end, as by an interruption, or at once if `now`.
    /// Returns what it does until it ends.
    std::function<std::string(bool now)> on_cancel;
    /// Called when a host with a mesh of this program leaves. It waits for
    /// Head::release_leaving_host().
    std::function<void(const std::string& host, const std::string& why)> on_host_leaves;
    /// Called when an operator stops actors of this program. Returns when they have ended.
    std::function<task<void>(std::string name)> on_stop_actors;
  };
  HeadNotifications(Context&, Events events) : events_(std::move(events)) {}

  /// The end of one process may fail thousands of meshes, and urgent calls are limited.
  void meshes_failed(const std::vector<MeshFailure>& failures) {
    for (const MeshFailure& failure : failures) events_.on_failure(failure);
  }
  void cluster_stops(const std::string& reason) { events_.on_stop(reason); }
  std::string cancel(bool now) { return events_.on_cancel(now); }
  void host_leaves(const std::string& host, const std::string& why) {
    events_.on_host_leaves(host, why);
  }
  task<void> stop_actors(std::string name) { return events_.on_stop_actors(std::move(name)); }

  static constexpr auto endpoints =
      interface<"weft.watcher", 1>(on<&HeadNotifications::meshes_failed>("meshes_failed", urgent),
                                   on<&HeadNotifications::cluster_stops>("cluster_stops", urgent),
                                   on<&HeadNotifications::cancel>("cancel", urgent),
                                   on<&HeadNotifications::host_leaves>("host_leaves", urgent),
                                   on<&HeadNotifications::stop_actors>("stop_actors", urgent));

 private:
  const Events events_;
};

}  // namespace weft::actors
