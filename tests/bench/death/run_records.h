#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::test {

/// "1 6.967.." for each step of OUT/metrics.jsonl, as text, so that equal means equal bits.
std::vector<std::string> losses_of(const std::filesystem::path& out);

/// The lines of OUT/events.jsonl of this kind.
std::vector<nlohmann::json> events_of(const std::filesystem::path& out, const std::string& kind);

/// "2026-11-22T18:02:11.345Z", the time of an event, as milliseconds since 1970.
std::int64_t unix_ms_of(const std::string& time);

}  // namespace weft::test
