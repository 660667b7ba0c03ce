#include "core/trace/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/base/error.h"

namespace weft {
namespace {

constexpr int kTracksPerLane = 100;  // thread id: lane * kTracksPerLane + track + 1

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Formats nanoseconds as microseconds without loss; a double would lose digits in long runs.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::int64_t first_start(std::span<const DeviceTrace> devices) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const DeviceTrace& device : devices)
    for (const TraceEvent& event : device.events)
      first = std::min(first, event.start_ns + device.clock_offset_ns);
  return first;
}

class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out) : out_(out) {}

  void metadata(std::size_t pid, int tid, const char* what, const std::string& args) {
    line(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", pid, tid, what,
                     args));
  }

  void event(std::size_t pid, int tid, std::int64_t start_ns, const TraceEvent& event) {
    std::string args = fmt::format(R"("step":{})", event.step);
    if (event.microbatch != TraceEvent::kNoMicrobatch)
      args += fmt::format(R"(,"microbatch":{})", event.microbatch);
    if (event.bytes > 0) args += fmt::format(R"(,"bytes":{})", event.bytes);
    line(fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}}}})",
        pid, tid, microseconds(start_ns),
        microseconds(std::max<std::int64_t>(0, event.end_ns - event.start_ns)),
        json_string(label(event)), to_string(event.kind), args));
  }

 private:
  void line(const std::string& text) {
    out_ << (first_ ? "" : ",\n") << text;
    first_ = false;
  }

  std::ostream& out_;
  bool first_ = true;
};

void write_device(TraceWriter& writer, std::size_t pid, const DeviceTrace& device,
                  std::int64_t origin) {
  std::string name = device.name;
  if (device.dropped > 0) name += fmt::format(" ({} events dropped)", device.dropped);
  writer.metadata(pid, 0, "process_name", R"("name":)" + json_string(name));
  writer.metadata(pid, 0, "process_sort_index", fmt::format(R"("sort_index":{})", pid));
  for (TraceLane lane : {TraceLane::kCompute, TraceLane::kSend, TraceLane::kReceive}) {
    std::vector<TraceEvent> events;
    std::copy_if(device.events.begin(), device.events.end(), std::back_inserter(events),
                 [&](const TraceEvent& event) { return event.lane == lane; });
    std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
      return a.start_ns < b.start_ns;
    });
    const std::vector<int> tracks = assign_tracks(events);
    const int num_tracks =
        std::max(1, tracks.empty() ? 1 : *std::max_element(tracks.begin(), tracks.end()) + 1);
    for (int track = 0; track < num_tracks; ++track) {
      const int tid = static_cast<int>(lane) * kTracksPerLane + track + 1;
      const std::string thread = track == 0 ? std::string(to_string(lane))
                                            : fmt::format("{} {}", to_string(lane), track + 1);
      writer.metadata(pid, tid, "thread_name", R"("name":)" + json_string(thread));
      writer.metadata(pid, tid, "thread_sort_index", fmt::format(R"("sort_index":{})", tid));
    }
    for (std::size_t i = 0; i < events.size(); ++i)
      writer.event(pid, static_cast<int>(lane) * kTracksPerLane + tracks[i] + 1,
                   events[i].start_ns + device.clock_offset_ns - origin, events[i]);
  }
}

}  // namespace

void write_chrome_trace(std::ostream& out, std::span<const DeviceTrace> devices) {
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  TraceWriter writer(out);
  const std::int64_t origin = first_start(devices);
  for (std::size_t i = 0; i < devices.size(); ++i) write_device(writer, i + 1, devices[i], origin);
  out << "\n]}\n";
}

void write_chrome_trace(const std::filesystem::path& path, std::span<const DeviceTrace> devices) {
  std::ofstream out(path);
  write_chrome_trace(out, devices);
  out.close();
  if (!out)
    throw_error(ErrorCode::kUnavailable, "cannot write the trace to {}: {}", path.string(),
                std::strerror(errno));
}

}  // namespace weft
