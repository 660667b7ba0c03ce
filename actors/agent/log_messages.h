#pragma once

#include <cstdint>
#include <string>

#include "actors/agent/agent_messages.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Log of a process that an agent has started: a device process, or the driver of a detached run.
struct LogId {
  MeshKey mesh;  ///< Driver: name of the run, number of its launch.
  std::uint32_t rank = 0;
  bool driver = false;
  friend auto operator<=>(const LogId&, const LogId&) = default;
  /// Returns the name in the agent's log folder: "front.3.r0.log", "quickstart.1.driver.log".
  std::string file() const {
    return mesh.text() + (driver ? ".driver.log" : ".r" + std::to_string(rank) + ".log");
  }
  static constexpr auto fields = weft::fields(&LogId::mesh, &LogId::rank, &LogId::driver);
};

/// Position from which to read a log.
struct LogPosition {
  LogId log;
  std::uint64_t offset = 0;  ///< Bytes since its process began to write.
  /// If not 0: start of its last `tail_lines` lines, instead of the offset.
  std::uint32_t tail_lines = 0;
  static constexpr auto fields =
      weft::fields(&LogPosition::log, &LogPosition::offset, &LogPosition::tail_lines);
};

/// Part of a log.
struct LogPiece {
  std::string text;        ///< Bytes as they were written.
  std::uint64_t next = 0;  ///< Offset of its end.
  bool more = false;       ///< True if the log has more now.
  std::string problem;     ///< Why it could not be read; else empty.
  static constexpr auto fields =
      weft::fields(&LogPiece::text, &LogPiece::next, &LogPiece::more, &LogPiece::problem);
};

}  // namespace weft::actors
