#include "actors/head/host_logs.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "actors/agent/log_reader.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kAgentReadsWithin = std::chrono::seconds(5);

}  // namespace

task<std::vector<LogPiece>> read_host_logs(System& system, const HostTable& hosts,
                                           std::vector<LogRequest> requests,
                                           std::uint32_t max_bytes) {
  std::vector<LogPiece> pieces(requests.size());
  struct OfHost {
    std::vector<std::size_t> indices;
    std::vector<LogPosition> positions;
    std::optional<Future<std::vector<LogPiece>>> answer;
  };
  std::map<std::string, OfHost> asked;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    asked[requests[i].host].indices.push_back(i);
    asked[requests[i].host].positions.push_back(requests[i].position);
  }
  for (auto& [name, of] : asked) {
    const HostTable::Host* const host = hosts.find(name);
    if (host == nullptr) continue;
    of.answer = system.named<LogReader>(host->agent, "logs")
                    .within(kAgentReadsWithin)
                    .call<&LogReader::read>(of.positions, max_bytes);
  }
  for (auto& [name, of] : asked) {
    std::string problem =
        fmt::format("host {} is not in this cluster; it has left or never joined", name);
    if (of.answer) {
      try {
        Future<std::vector<LogPiece>>& answer = *of.answer;
        std::vector<LogPiece> found = co_await answer;
        for (std::size_t i = 0; i < of.indices.size() && i < found.size(); ++i)
          pieces[of.indices[i]] = std::move(found[i]);
        continue;
      } catch (const Error& error) {
        problem = error.message();
      }
    }
    for (std::size_t i = 0; i < of.indices.size(); ++i)
      pieces[of.indices[i]] = {"", of.positions[i].offset, false, problem};
  }
  co_return pieces;
}

}  // namespace weft::actors
