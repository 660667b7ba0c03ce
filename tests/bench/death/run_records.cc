#include "tests/bench/death/run_records.h"

#include <fmt/format.h>

#include <ctime>
#include <sstream>
#include <stdexcept>

#include "tests/support/real_processes.h"

namespace weft::test {

std::vector<std::string> losses_of(const std::filesystem::path& out) {
  std::vector<std::string> losses;
  std::istringstream lines(read_file(out / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    losses.push_back(fmt::format("{} {}", step["step"].dump(), step["loss"].dump()));
  }
  return losses;
}

std::vector<nlohmann::json> events_of(const std::filesystem::path& out, const std::string& kind) {
  std::vector<nlohmann::json> events;
  std::istringstream lines(read_file(out / "events.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (auto event = nlohmann::json::parse(line); event["kind"] == kind)
      events.push_back(std::move(event));
  return events;
}

std::int64_t unix_ms_of(const std::string& time) {
  std::tm parts{};
  int ms = 0;
  const char* rest = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S.", &parts);
  if (rest == nullptr || std::sscanf(rest, "%3dZ", &ms) != 1)
    throw std::runtime_error("no time of an event: " + time);
  return ::timegm(&parts) * 1000LL + ms;
}

}  // namespace weft::test
