#include "apps/run_files/timeline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "apps/svg/plot.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr double kTimelineWidth = 1400;
constexpr double kTimelineRight = 24, kTimelineTop = 96, kTimelineBottom = 48;
constexpr double kComputeHeight = 34, kTransferHeight = 16, kLaneGap = 3, kDeviceGap = 16;
constexpr double kLetterWidth = 7;

constexpr const char* kMicrobatchColours[] = {"#2f6fde", "#e8590c", "#2b8a3e", "#ae3ec9",
                                              "#e03131", "#0c8599", "#b08900", "#5f3dc4",
                                              "#d6336c", "#66801f"};
constexpr const char* kUpdateColour = "#495057";
constexpr const char* kNoMicrobatchColour = "#868e96";

std::string colour_of(const TraceEvent& event) {
  if (event.kind == TraceKind::kUpdate) return kUpdateColour;
  if (event.microbatch == TraceEvent::kNoMicrobatch) return kNoMicrobatchColour;
  return kMicrobatchColours[event.microbatch % std::size(kMicrobatchColours)];
}

/// Returns fill and text colour of a kind of work in a microbatch's colour.
std::pair<std::string, const char*> style_of(TraceKind kind, const std::string& colour) {
  switch (kind) {
    case TraceKind::kForward:
    case TraceKind::kUpdate:
    case TraceKind::kReshard: return {fmt::format("fill='{}'", colour), "white"};
    case TraceKind::kBackward:
    case TraceKind::kInputGrad:
      return {fmt::format("fill='{0}' fill-opacity='0.55'", colour), "#24292f"};
    case TraceKind::kWeightGrad:
      return {fmt::format("fill='{0}' fill-opacity='0.25'", colour), "#24292f"};
    case TraceKind::kCollective:
      return {"fill='url(#hatch)' stroke='#868e96' stroke-width='0.5'", "#24292f"};
    case TraceKind::kWait:
      return {"fill='white' stroke='#ced4da' stroke-width='0.75' stroke-dasharray='2 2'",
              "#868e96"};
  }
  return {"fill='black'", "white"};
}

struct Span {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  void add(std::int64_t from, std::int64_t to) {
    start = std::min(start, from);
    end = std::max(end, to);
  }
};

double lane_height(TraceLane lane) {
  return lane == TraceLane::kCompute ? kComputeHeight : kTransferHeight;
}

/// Returns the events of a lane in a step, in common time, ordered by start. Longer events come
/// first, so that they do not cover shorter ones.
std::vector<TraceEvent> lane_events(const DeviceTrace& device, TraceLane lane, std::int64_t step) {
  std::vector<TraceEvent> events;
  for (TraceEvent event : device.events) {
    if (event.lane != lane || event.step != step) continue;
    event.start_ns += device.clock_offset_ns;
    event.end_ns += device.clock_offset_ns;
    events.push_back(std::move(event));
  }
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  return events;
}

/// Draws the events of a lane on a time axis that begins at `left`.
class Timeline {
 public:
  Timeline(Svg& svg, Span span, double left) : svg_(svg), span_(span), left_(left) {}

  double x_of(std::int64_t ns) const {
    const double length = std::max<std::int64_t>(1, span_.end - span_.start);
    return left_ + (ns - span_.start) / length * (kTimelineWidth - left_ - kTimelineRight);
  }

  /// Draws the events of a lane. Overlapping events share the lane's height.
  void draw_lane(const std::vector<TraceEvent>& events, double y, double height) {
    std::vector<TraceEvent> group;
    std::int64_t group_end = std::numeric_limits<std::int64_t>::min();
    for (const TraceEvent& event : events) {
      if (event.start_ns >= group_end) {
        draw_group(group, y, height);
        group.clear();
      }
      group.push_back(event);
      group_end = std::max(group_end, event.end_ns);
    }
    draw_group(group, y, height);
  }

 private:
  void draw_group(const std::vector<TraceEvent>& group, double y, double height) {
    if (group.empty()) return;
    const std::vector<int> tracks = assign_tracks(group);
    const double share = height / (*std::max_element(tracks.begin(), tracks.end()) + 1);
    for (std::size_t i = 0; i < group.size(); ++i)
      draw_event(group[i], y + share * tracks[i], share);
  }

  void draw_event(const TraceEvent& event, double y, double height) {
    const double x = x_of(event.start_ns);
    const double width = std::max(0.6, x_of(event.end_ns) - x);
    const auto [style, text_colour] = style_of(event.kind, colour_of(event));
    std::string tooltip =
        fmt::format("{}\n{}", label(event), format_seconds((event.end_ns - event.start_ns) * 1e-9));
    if (event.bytes > 0) tooltip += ", " + format_bytes(event.bytes);
    svg_.rect(x, y, width, height,
              style + (width > 3 && style.find("stroke") == std::string::npos
                           ? " stroke='white' stroke-width='0.5'"
                           : ""),
              tooltip);
    std::string mark;
    if (event.kind == TraceKind::kUpdate) mark = "update";
    else if (event.kind != TraceKind::kWait && event.microbatch != TraceEvent::kNoMicrobatch)
      mark = fmt::format("{}", event.microbatch);
    if (!mark.empty() && height >= 12 && width >= mark.size() * kLetterWidth + 3)
      svg_.text(x + width / 2, y + height / 2 + 4, mark, Svg::Anchor::kMiddle,
                fmt::format("fill='{}' font-size='{}' pointer-events='none'", text_colour,
                            height > 20 ? 12 : 10));
  }

  Svg& svg_;
  Span span_;
  double left_;
};

void draw_legend(Svg& svg, double left, const std::set<TraceKind>& shown,
                 const std::set<int>& microbatches) {
  double x = left;
  const double y = 46;
  const auto entry = [&](const std::string& style, const std::string& text) {
    svg.rect(x, y, 14, 14, style);
    svg.text(x + 19, y + 11, text);
    x += 19 + text.size() * kLetterWidth + 16;
  };
  const std::string neutral = kMicrobatchColours[0];
  const std::pair<TraceKind, const char*> kinds[] = {
      {TraceKind::kForward, "forward"},
      {TraceKind::kBackward, "backward"},
      {TraceKind::kInputGrad, "backward, input gradient"},
      {TraceKind::kWeightGrad, "backward, weight gradient"},
      {TraceKind::kUpdate, "optimizer"},
      {TraceKind::kCollective, "collective in a mesh"},
      {TraceKind::kWait, "waiting for a transfer"}};
  for (const auto& [kind, text] : kinds)
    if (shown.contains(kind))
      entry(style_of(kind, kind == TraceKind::kUpdate ? kUpdateColour : neutral).first, text);
  x = left;
  svg.text(x, y + 32, "microbatch", Svg::Anchor::kStart, "fill='#57606a'");
  x += 80;
  for (int m : microbatches) {
    if (x > kTimelineWidth - 60) break;
    svg.rect(
        x, y + 21, 22, 14,
        fmt::format("fill='{}' rx='2'", kMicrobatchColours[m % std::size(kMicrobatchColours)]));
    svg.text(x + 11, y + 32, fmt::format("{}", m), Svg::Anchor::kMiddle,
             "fill='white' font-size='11'");
    x += 27;
  }
}

}  // namespace

Svg draw_timeline(std::span<const DeviceTrace> devices, std::int64_t step,
                  const std::string& title) {
  Span span;
  std::set<int> microbatches;
  std::set<TraceKind> kinds;
  for (const DeviceTrace& device : devices)
    for (const TraceEvent& event : device.events) {
      if (event.step != step) continue;
      span.add(event.start_ns + device.clock_offset_ns, event.end_ns + device.clock_offset_ns);
      kinds.insert(event.kind);
      if (event.microbatch != TraceEvent::kNoMicrobatch) microbatches.insert(event.microbatch);
    }
  if (span.end < span.start) span = {0, 1};
  double left = 150;
  for (const DeviceTrace& device : devices)
    left = std::max(
        left, 90 + Svg::kBoldLetterWidth * device.name.substr(0, device.name.find(" on ")).size());

  constexpr double kDeviceHeight = kComputeHeight + 2 * (kTransferHeight + kLaneGap) + kDeviceGap;
  const double rows_bottom = kTimelineTop + kDeviceHeight * devices.size();
  Svg svg(kTimelineWidth, rows_bottom + kTimelineBottom);
  svg.definitions(
      "<pattern id='hatch' width='5' height='5' patternUnits='userSpaceOnUse' "
      "patternTransform='rotate(45)'>"
      "<rect width='5' height='5' fill='#f1f3f5'/><rect width='2' height='5' "
      "fill='#adb5bd'/></pattern>");
  svg.text(16, 28, title, Svg::Anchor::kStart, "font-size='16' font-weight='600'");
  draw_legend(svg, left, kinds, microbatches);

  Timeline timeline(svg, span, left);
  const double milliseconds = (span.end - span.start) * 1e-6;
  const std::vector<double> ticks = round_ticks(0, milliseconds, 10);
  for (double tick : ticks) {
    const double x = timeline.x_of(span.start + static_cast<std::int64_t>(tick * 1e6));
    svg.line(x, kTimelineTop, x, rows_bottom, "stroke='#e6e8eb'");
    svg.text(x, rows_bottom + 18, tick_label(tick, ticks.size() > 1 ? ticks[1] : 1),
             Svg::Anchor::kMiddle, "fill='#57606a'");
  }
  svg.text((left + kTimelineWidth - kTimelineRight) / 2, rows_bottom + 38, "milliseconds",
           Svg::Anchor::kMiddle, "fill='#57606a'");

  double y = kTimelineTop + kDeviceGap / 2;
  for (const DeviceTrace& device : devices) {
    svg.text(16, y + 15, device.name.substr(0, device.name.find(" on ")), Svg::Anchor::kStart,
             "font-weight='600'");
    if (const auto on = device.name.find(" on "); on != std::string::npos)
      svg.text(16, y + 31, device.name.substr(on + 1), Svg::Anchor::kStart, "fill='#57606a'");
    double lane_y = y;
    for (TraceLane lane : {TraceLane::kCompute, TraceLane::kSend, TraceLane::kReceive}) {
      const double height = lane_height(lane);
      svg.rect(left, lane_y, kTimelineWidth - left - kTimelineRight, height,
               "fill='#f6f8fa' fill-opacity='0.7'");
      svg.text(left - 8, lane_y + height / 2 + 4, to_string(lane), Svg::Anchor::kEnd,
               "fill='#57606a' font-size='11'");
      timeline.draw_lane(lane_events(device, lane, step), lane_y, height);
      lane_y += height + kLaneGap;
    }
    y += kDeviceHeight;
  }
  return svg;
}

std::int64_t median_step(std::span<const DeviceTrace> devices) {
  std::map<std::int64_t, Span> spans;
  for (const DeviceTrace& device : devices)
    for (const TraceEvent& event : device.events)
      spans[event.step].add(event.start_ns + device.clock_offset_ns,
                            event.end_ns + device.clock_offset_ns);
  if (spans.empty()) return 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths;
  for (const auto& [step, span] : spans) lengths.emplace_back(span.end - span.start, step);
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

}  // namespace weft::apps
