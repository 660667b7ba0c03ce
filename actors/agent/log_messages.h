#pragma once

#include <cstdint>
#include <string>

#include "actors/agent/agent_messages.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// The log of a process that an agent has started: of a device, or of the driver of a detached run.
struct LogName {
  MeshKey mesh;  ///< of a driver: the run, and the number of its launch
  std::uint32_t rank = 0;
  bool driver = false;
  friend auto operator<=>(const LogName&, const LogName&) = default;
  /// In the agent's log folder: "front.3.r0.log", "quickstart.1.driver.log".
  std::string file() const {
    return mesh.text() + (driver ? ".driver.log" : ".r" + std::to_string(rank) + ".log");
  }
  static constexpr auto fields = weft::fields(&LogName::mesh, &LogName::rank, &LogName::driver);
};

/// Where to read on.
struct LogPosition {
  LogName log;
  std::uint64_t offset = 0;  ///< from where its process began to write
  /// Not 0: instead of the offset, where its last so many lines begin.
  std::uint32_t last_lines = 0;
  static constexpr auto fields =
      weft::fields(&LogPosition::log, &LogPosition::offset, &LogPosition::last_lines);
};

/// A part of a log.
struct LogPiece {
  std::string text;        ///< as it was written, any bytes
  std::uint64_t next = 0;  ///< the offset at its end
  bool more = false;       ///< There is more now.
  std::string problem;     ///< why it cannot be read; empty: it has been
  static constexpr auto fields =
      weft::fields(&LogPiece::text, &LogPiece::next, &LogPiece::more, &LogPiece::problem);
};

}  // namespace weft::actors
