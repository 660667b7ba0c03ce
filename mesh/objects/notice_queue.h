#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "actors/call/future.h"
#include "actors/system/context.h"
#include "mesh/objects/object_messages.h"

namespace weft::mesh {

/// Notices to other stores, which arrive in order and exactly once, unless the process ends. One
/// call per process is under way; it takes all notices that wait, so that a burst of them does not
/// exceed the limits of mailboxes.
///
/// Actor's thread only.
class NoticeQueue final {
 public:
  using Send =
      std::function<actors::Future<void>(const actors::ProcessRef&, const std::vector<Notice>&)>;
  NoticeQueue(actors::TaskPoster poster, Send send)
      : poster_(std::move(poster)), send_(std::move(send)) {}

  void add(const actors::ProcessRef& process, const Notice& notice);

 private:
  struct Peer {
    actors::ProcessRef process;
    std::vector<Notice> waiting = {};
    std::vector<Notice> sent = {};
  };
  void send_waiting(Peer& peer);
  void ended(actors::ProcessId process, const std::optional<Error>& error);

  const actors::TaskPoster poster_;
  const Send send_;
  std::map<actors::ProcessId, Peer> peers_;
};

}  // namespace weft::mesh
