#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/supervision/incident.h"

namespace weft::actors {

/// Line of OUT/events.jsonl: an event of a run that its operator may want to find again. A value.
struct RunEvent {
  std::string kind;  ///< "incident", "interruption", "no progress", "failed"
  std::string cause;
  std::string host = {};
  std::string mesh = {};
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> pid = {};

  static RunEvent of(const Incident& incident);
};

/// Returns one line with a newline, without unknown fields. `unix_ms` is the time.
/// {"time":"2026-11-22T18:02:11.345Z","kind":"incident","host":"worker0","mesh":"front","rank":1,
///  "pid":4121,"cause":"..."}
std::string to_json_line(const RunEvent& event, std::int64_t unix_ms);

/// Writer of OUT/events.jsonl. Appends whole lines, so that several processes may write. Never
/// throws: on a full disk a line is lost, but events are reported elsewhere, too. Any thread.
class RunEvents final {
 public:
  explicit RunEvents(const std::filesystem::path& out) : path_(out / "events.jsonl") {}
  void add(const RunEvent& event) const noexcept;

 private:
  const std::filesystem::path path_;
};

}  // namespace weft::actors
