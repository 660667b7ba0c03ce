#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/owner_table.h"
#include "actors/message/ids.h"

namespace weft::actors {

/// Replacement of the cluster's token at the request of an operator. Does not hold the token: the
/// System of the head's process does. One thread at a time.
class HeadToken final {
 public:
  using Rotate = std::function<TokenRotation(const std::vector<ProcessId>& members)>;
  /// `rotate`: makes a new token and sends it to connected processes. `members` may prove the
  /// former one until they have reconnected. Empty: the token is not this head's.
  HeadToken(Rotate rotate, const HostTable& hosts, const OwnerTable& owners, EventLog& log)
      : rotate_(std::move(rotate)), hosts_(hosts), owners_(owners), log_(log) {}

  /// Replaces the token. Processes that are neither agents of hosts nor owners need the new one
  /// from now on. Throws kFailedPrecondition if the head was started with a token from outside.
  TokenRotation rotate();

 private:
  const Rotate rotate_;
  const HostTable& hosts_;
  const OwnerTable& owners_;
  EventLog& log_;
};

}  // namespace weft::actors
