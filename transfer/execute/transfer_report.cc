#include "transfer/execute/transfer_report.h"

#include <fmt/format.h>

#include "core/base/units.h"

namespace weft::transfer {

std::uint64_t EngineCounters::bytes_sent(Path path) const {
  std::uint64_t bytes = 0;
  for (const auto& [peer, counters] : peers)
    bytes += counters.path == path ? counters.bytes_sent : 0;
  return bytes;
}

std::uint64_t EngineCounters::bytes_received(Path path) const {
  std::uint64_t bytes = 0;
  for (const auto& [peer, counters] : peers)
    bytes += counters.path == path ? counters.bytes_received : 0;
  return bytes;
}

std::string to_string(const EngineCounters& counters) {
  std::string text = fmt::format("{} transfers", counters.transfers_finished);
  for (const Path path : {Path::kTcp, Path::kSharedMemory, Path::kLoopback}) {
    const std::uint64_t sent = counters.bytes_sent(path), received = counters.bytes_received(path);
    if (sent + received != 0)
      text += fmt::format(", {} sent {} received {}", to_string(path), format_bytes(sent),
                          format_bytes(received));
  }
  if (counters.messages_dropped != 0)
    text += fmt::format(", {} messages dropped", counters.messages_dropped);
  return text;
}

}  // namespace weft::transfer
