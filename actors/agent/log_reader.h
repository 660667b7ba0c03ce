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

/// Server of a host's logs, which it reads in pieces. Hosted by the agent's main under the name
/// "logs", apart from the agent, so that a slow disk delays readers only.
///
/// Opens files of the agent's log folder only, under names that it builds itself.
class LogReader final {
 public:
  static constexpr std::uint32_t kMaxPiece = 256 * 1024;
  static constexpr std::size_t kMaxPieces = 64;

  LogReader(Context& context, std::filesystem::path folder)
      : context_(context), folder_(std::move(folder)) {}

  /// Records that a process begins to write. The first `size` bytes belong to another cluster;
  /// readers skip them. For the agent's own process.
  void log_opened(const LogId& log, std::uint64_t size);
  /// Returns a piece for each position, of `max_bytes` and kMaxPiece at most.
  std::vector<LogPiece> read(const std::vector<LogPosition>& positions, std::uint32_t max_bytes);

  static constexpr auto endpoints = interface<"weft.logs", 1>(
      on<&LogReader::log_opened>("log_opened"), on<&LogReader::read>("read"));

 private:
  static constexpr std::size_t kMaxKnownLogs = 100'000;
  LogPiece read_one(const LogPosition& position, std::uint32_t max_bytes) const;

  Context& context_;
  const std::filesystem::path folder_;
  std::map<LogId, std::uint64_t> log_starts_;  // Offset at which readers begin, if not 0.
};

/// Reads the piece of a file from the offset on, or its last lines as far as they lie in its last
/// `max_bytes`. `begin`: byte of the file that has offset 0.
LogPiece read_log_piece(const std::filesystem::path& file, std::uint64_t begin,
                        const LogPosition& position, std::uint32_t max_bytes);

}  // namespace weft::actors
