#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::test {

/// Returns a line such as "1 6.967.." per step of OUT/metrics.jsonl. Losses are text, so that equal
/// means bit-identical.
std::vector<std::string> losses_of(const std::filesystem::path& out);

/// Returns the lines of OUT/events.jsonl of this kind.
std::vector<nlohmann::json> events_of(const std::filesystem::path& out, const std::string& kind);

/// Returns an event's time, such as "2026-11-22T18:02:11.345Z", in milliseconds since 1970.
std::int64_t unix_ms_of(const std::string& time);

}  // namespace weft::test
