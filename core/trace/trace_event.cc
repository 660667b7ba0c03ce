#include "core/trace/trace_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace weft {

std::string_view to_string(TraceLane lane) {
  switch (lane) {
    case TraceLane::kCompute: return "compute";
    case TraceLane::kSend: return "send";
    case TraceLane::kReceive: return "receive";
  }
  return "?";
}

std::string_view to_string(TraceKind kind) {
  switch (kind) {
    case TraceKind::kForward: return "forward";
    case TraceKind::kBackward: return "backward";
    case TraceKind::kInputGrad: return "input grad";
    case TraceKind::kWeightGrad: return "weight grad";
    case TraceKind::kUpdate: return "update";
    case TraceKind::kCollective: return "collective";
    case TraceKind::kReshard: return "reshard";
    case TraceKind::kWait: return "wait";
  }
  return "?";
}

std::string label(const TraceEvent& event) {
  std::string text(to_string(event.kind));
  if (event.microbatch != TraceEvent::kNoMicrobatch) text += fmt::format(" {}", event.microbatch);
  if (!event.name.empty()) text += ": " + event.name;
  return text;
}

std::vector<int> assign_tracks(const std::vector<TraceEvent>& events) {
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return events[a].start_ns < events[b].start_ns;
  });
  std::vector<int> track(events.size());
  std::vector<std::int64_t> free_from;  // time at which each track becomes free
  for (std::size_t i : order) {
    std::size_t t = 0;
    while (t < free_from.size() && free_from[t] > events[i].start_ns) ++t;
    if (t == free_from.size()) free_from.push_back(0);
    free_from[t] = std::max(events[i].end_ns, events[i].start_ns);
    track[i] = t;
  }
  return track;
}

}  // namespace weft
