#include "actors/cluster/operator_reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "core/base/units.h"

namespace weft::actors {

OperatorReports::OperatorReports(Log log, std::function<void(const RunEvent&)> on_event)
    : log_(std::move(log)), on_event_(std::move(on_event)) {}

void OperatorReports::warn(const RunEvent& event) const {
  log_.warning("{}", event.cause);
  add(event);
}

void OperatorReports::add(const RunEvent& event) const {
  if (on_event_) on_event_(event);
}

void OperatorReports::add_memory_caps(const std::vector<DeviceProcess>& processes,
                                      std::uint64_t cap_bytes) {
  if (caps_reported_.exchange(true)) return;
  std::map<std::string, std::set<std::string>> hosts;  // names of hosts, by kind of cap
  for (const DeviceProcess& process : processes)
    hosts[to_string(process.cap.kind)].insert(process.place.host);
  std::vector<std::string> kinds;
  for (const auto& [kind, names] : hosts)
    kinds.push_back(hosts.size() == 1 ? kind
                                      : fmt::format("{} on {}", kind, fmt::join(names, ", ")));
  const RunEvent event{"memory cap", fmt::format("device processes are capped at {} each ({})",
                                                 format_bytes(cap_bytes), fmt::join(kinds, "; "))};
  log_.info("{}", event.cause);
  add(event);
}

}  // namespace weft::actors
