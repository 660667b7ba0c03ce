#pragma once

#include <cstdint>
#include <vector>

#include "actors/agent/log_messages.h"
#include "actors/call/task.h"
#include "actors/head/host_table.h"
#include "actors/head/run_messages.h"

namespace weft::actors {

/// Reads logs on their hosts, `max_bytes` at most of each. Returns pieces in the order of
/// `requests`; a piece names the problem if its host does not answer. In a handler of the head.
task<std::vector<LogPiece>> read_host_logs(System& system, const HostTable& hosts,
                                           std::vector<LogRequest> requests,
                                           std::uint32_t max_bytes);

}  // namespace weft::actors
