#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/supervision/incident.h"

namespace weft::actors {

/// One line of OUT/events.jsonl: something that a run met and that its operator may want to find
/// again. A value.
struct RunEvent {
  std::string kind;  ///< "incident", "interruption", "no progress", "failed"
  std::string cause;
  std::string host = {};
  std::string mesh = {};
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> pid = {};

  static RunEvent of(const Incident& incident);
};

/// {"time":"2026-11-22T18:02:11.345Z","kind":"incident","host":"worker0","mesh":"front","rank":1,
///  "pid":4121,"cause":"..."}
/// but on one line, with a newline. What is not known is left out. `unix_ms` is the time.
std::string to_json_line(const RunEvent& event, std::int64_t unix_ms);

/// Appends to OUT/events.jsonl, a line at a time, so that several processes may. Never throws: on a
/// full disk a line is lost, and whoever had to be told has been told otherwise. Any thread.
class RunEvents final {
 public:
  explicit RunEvents(const std::filesystem::path& out) : path_(out / "events.jsonl") {}
  void add(const RunEvent& event) const noexcept;

 private:
  const std::filesystem::path path_;
};

}  // namespace weft::actors
