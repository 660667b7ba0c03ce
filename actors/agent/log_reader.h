#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "actors/agent/log_messages.h"
#include "actors/call/interface.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Reads the logs of a host's device processes to those who ask, in pieces. Hosted by the agent's
/// main under the name "logs", beside the agent: a slow disk keeps nobody but readers.
///
/// It opens files of the agent's log folder alone, by names that it makes itself.
class LogReader final {
 public:
  static constexpr std::uint32_t kMaxPiece = 256 * 1024;
  static constexpr std::size_t kMaxPieces = 64;

  LogReader(Context&, std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// From the agent: a process begins to write; what stands there already is of another cluster.
  void began(const LogName& log, std::uint64_t size);
  /// A piece of each, of `max_bytes` at most.
  std::vector<LogPiece> read(const std::vector<LogPosition>& positions, std::uint32_t max_bytes);

  static constexpr auto endpoints =
      interface<"weft.logs", 1>(on<&LogReader::began>("began"), on<&LogReader::read>("read"));

 private:
  static constexpr std::size_t kKnown = 100'000;
  LogPiece read_one(const LogPosition& position, std::uint32_t max_bytes) const;

  const std::filesystem::path folder_;
  std::map<LogName, std::uint64_t> began_;  // those that do not begin at 0
};

/// The piece of a file from `offset` on, or of its last lines, as far as they lie in its last
/// `max_bytes`. `begin`: where it begins for the reader.
LogPiece read_log_piece(const std::filesystem::path& file, std::uint64_t begin,
                        const LogPosition& position, std::uint32_t max_bytes);

}  // namespace weft::actors
