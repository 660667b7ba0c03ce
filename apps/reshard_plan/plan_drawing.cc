#include "apps/reshard_plan/plan_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "apps/reshard_plan/link_loads.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using transfer::DeviceId;
using transfer::HostId;

constexpr double kWidth = 1080, kTop = 92, kBottom = 40;
constexpr double kLeft = 170, kRight = 690, kHostWidth = 220, kHostGap = 34;
constexpr double kDevice = 22, kDeviceGap = 5, kLinkHeight = 9;
constexpr std::size_t kMostFlows = 12;
constexpr const char* kColours[] = {"#2f6fde", "#e8590c", "#2b8a3e", "#ae3ec9", "#e03131", "#0c8599",
                                    "#b08900", "#5f3dc4", "#d6336c", "#66801f", "#495057", "#1098ad"};

/// Bytes from one host to another: of one flow, or of all.
struct Arrow {
  HostId from, to;
  std::size_t colour = 0;
  std::uint64_t bytes = 0;
};

struct Box {
  double x = 0, y = 0, height = 0;
  bool left = false;
  int used_outer = 0, used_inner = 0;  ///< Arrow ends on the side away from the other column, and on the side towards it.

  double edge_x(bool outer) const { return (left != outer) ? x + kHostWidth : x; }
};

std::vector<Arrow> arrows_of(const transfer::ReshardPlan& plan, bool& per_flow) {
  std::map<std::tuple<std::uint32_t, HostId, HostId>, std::uint64_t> bytes;
  std::set<std::uint32_t> flows;
  for (const transfer::Flow& flow : plan.flows) {
    for (const transfer::FlowEdge& edge : flow.edges) {
      const HostId from = plan.topology.host_of(edge.parent), to = plan.topology.host_of(edge.child);
      if (from == to) continue;
      bytes[{flow.id.value(), from, to}] += flow.bytes;
      flows.insert(flow.id.value());
    }
  }
  per_flow = flows.size() <= kMostFlows;
  std::map<std::tuple<std::size_t, HostId, HostId>, std::uint64_t> merged;
  for (const auto& [key, count] : bytes) {
    const auto& [flow, from, to] = key;
    const std::size_t colour = per_flow ? static_cast<std::size_t>(std::distance(flows.begin(), flows.find(flow))) : from.value();
    merged[{colour, from, to}] += count;
  }
  std::vector<Arrow> arrows;
  for (const auto& [key, count] : merged) arrows.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), count});
  return arrows;
}

class Drawing {
 public:
  Drawing(const transfer::ReshardPlan& plan, const transfer::Network& network)
      : plan_(plan),
        loads_(link_loads(plan, network)),
        arrows_(arrows_of(plan, per_flow_)),
        boxes_(place_hosts()),
        svg_(kWidth, height_) {}

  Svg draw() {
    title();
    for (std::size_t host = 0; host < boxes_.size(); ++host) draw_host(host);
    for (const Arrow& arrow : arrows_) draw_arrow(arrow);
    return std::move(svg_);
  }

 private:
  std::vector<Box> place_hosts() {
    std::set<HostId> wanting;
    for (const transfer::ReshardTask& task : plan_.tasks)
      for (const transfer::Shard& shard : task.destination.shards) wanting.insert(plan_.topology.host_of(shard.device));
    std::vector<int> devices(plan_.topology.num_hosts());
    for (const HostId host : plan_.topology.host_of_device) ++devices[host.value()];
    std::vector<Box> boxes(devices.size());
    double left = kTop, right = kTop;
    for (std::size_t host = 0; host < boxes.size(); ++host) {
      Box& box = boxes[host];
      box.left = !wanting.contains(HostId(static_cast<std::uint32_t>(host)));
      const int rows = (devices[host] + devices_per_row() - 1) / devices_per_row();
      box.height = 26 + rows * (kDevice + kDeviceGap) + 2 * (kLinkHeight + 5) + 8;
      double& y = box.left ? left : right;
      box.x = box.left ? kLeft : kRight;
      box.y = y;
      y += box.height + kHostGap;
    }
    height_ = std::max(left, right) + kBottom;
    return boxes;
  }

  static int devices_per_row() { return static_cast<int>((kHostWidth - 12) / (kDevice + kDeviceGap)); }

  void title() {
    std::uint64_t bytes = 0;
    for (const transfer::ReshardTask& task : plan_.tasks) bytes += task.type.bytes();
    svg_.text(24, 34,
              fmt::format("{}{} by {}", plan_.tasks.size() == 1 ? to_string(plan_.tasks.front().type) + ", " : "",
                          format_bytes(bytes), to_string(plan_.strategy)),
              Svg::Anchor::kStart, "font-size='19' font-weight='600'");
    svg_.text(24, 58,
              fmt::format("predicted {}; no plan can take less than {}. {}", format_seconds(plan_.predicted_seconds),
                          format_seconds(plan_.limit.seconds),
                          per_flow_ ? "One colour per flow, width by bytes." : "One colour per sending host, width by bytes."),
              Svg::Anchor::kStart, "font-size='13' fill='#57606a'");
  }

  void draw_host(std::size_t host) {
    const Box& box = boxes_[host];
    svg_.rect(box.x, box.y, kHostWidth, box.height, "fill='#f6f8fa' stroke='#afb8c1' rx='6'");
    svg_.text(box.x + 8, box.y + 17, fmt::format("host {}", host), Svg::Anchor::kStart, "font-size='13' font-weight='600'");
    int at = 0;
    for (std::size_t device = 0; device < plan_.topology.num_devices(); ++device) {
      if (plan_.topology.host_of_device[device].value() != host) continue;
      const int row = at / devices_per_row();
      const double x = box.x + 8 + (at % devices_per_row()) * (kDevice + kDeviceGap),
                   y = box.y + 25 + row * (kDevice + kDeviceGap);
      ++at;
      const auto [holds, wants] = role(DeviceId(static_cast<std::uint32_t>(device)));
      svg_.rect(
          x, y, kDevice, kDevice,
          fmt::format("fill='{}' stroke='{}' rx='3'",
                      holds   ? "#dbe4ff"
                      : wants ? "#fff"
                              : "#eaeef2",
                      wants ? "#2b8a3e" : "#afb8c1"),
          fmt::format("device {}: {}{}{}", device, holds ? "holds" : "", holds && wants ? " and " : "", wants ? "wants" : ""));
      svg_.text(x + kDevice / 2, y + 15, fmt::format("{}", device), Svg::Anchor::kMiddle, "font-size='10'");
    }
    const LinkLoad& load = loads_[host];
    const double bar = kHostWidth - 110;
    double y = box.y + box.height - 2 * (kLinkHeight + 5) - 2;
    for (const auto& [name, bytes, seconds] :
         {std::tuple("out", load.bytes_out, load.seconds_out), std::tuple("in", load.bytes_in, load.seconds_in)}) {
      const double share = plan_.predicted_seconds > 0 ? std::min(1.0, seconds / plan_.predicted_seconds) : 0;
      svg_.text(box.x + 8, y + kLinkHeight, name, Svg::Anchor::kStart, "font-size='10' fill='#57606a'");
      svg_.rect(box.x + 30, y, bar, kLinkHeight, "fill='#eaeef2'");
      svg_.rect(box.x + 30, y, bar * share, kLinkHeight, "fill='#57606a'");
      svg_.text(box.x + 36 + bar, y + kLinkHeight, fmt::format("{} {:.0f} %", format_bytes(bytes), 100 * share),
                Svg::Anchor::kStart, "font-size='10' fill='#57606a'");
      y += kLinkHeight + 5;
    }
  }

  std::pair<bool, bool> role(DeviceId device) const {
    bool holds = false, wants = false;
    for (const transfer::ReshardTask& task : plan_.tasks) {
      holds = holds || task.source.region_of(device) != nullptr;
      wants = wants || task.destination.region_of(device) != nullptr;
    }
    return {holds, wants};
  }

  /// The next free place for an arrow's end on a side of a host.
  static double slot(int& used, const Box& box) {
    const double step = 12, from = box.y + 14;
    return from + std::fmod(step * used++, std::max(step, box.height - 24));
  }

  void draw_arrow(const Arrow& arrow) {
    Box& from = boxes_[arrow.from.value()];
    Box& to = boxes_[arrow.to.value()];
    const bool same_column = from.left == to.left;
    const double x1 = from.edge_x(same_column), x2 = to.edge_x(same_column);
    const double y1 = slot(same_column ? from.used_outer : from.used_inner, from),
                 y2 = slot(same_column ? to.used_outer : to.used_inner, to);
    // Out of the side, and into the other: a cubic curve, drawn as short lines.
    const double towards = same_column ? (from.left ? -1 : 1) * (30 + 0.22 * std::abs(y2 - y1)) : (from.left ? 150 : -150);
    const double cx1 = x1 + towards, cx2 = same_column ? x2 + towards : x2 - towards;
    std::vector<std::pair<double, double>> points;
    for (int i = 0; i <= 32; ++i) {
      const double t = i / 32.0, s = 1 - t;
      points.emplace_back(s * s * s * x1 + 3 * s * s * t * cx1 + 3 * s * t * t * cx2 + t * t * t * x2,
                          s * s * s * y1 + 3 * s * s * t * y1 + 3 * s * t * t * y2 + t * t * t * y2);
    }
    const char* colour = kColours[arrow.colour % std::size(kColours)];
    std::uint64_t most = 1;
    for (const Arrow& each : arrows_) most = std::max(most, each.bytes);
    const double width = 1.2 + 3.5 * static_cast<double>(arrow.bytes) / static_cast<double>(most);
    svg_.polyline(points, fmt::format("stroke='{}' stroke-width='{:.1f}' stroke-opacity='0.8'", colour, width));
    const double head = 5 + width, direction = cx2 < x2 ? 1 : -1;
    svg_.polyline({{x2 - direction * head, y2 - head / 2}, {x2, y2}, {x2 - direction * head, y2 + head / 2}},
                  fmt::format("stroke='{}' stroke-width='{:.1f}'", colour, std::min(width, 3.0)));
    if (arrows_.size() <= 16) {
      // Neighbours' labels stand at different places of their curves.
      const auto& [x, y] = points[same_column ? 16 : 5 + 6 * (arrow.colour % 4)];
      svg_.text(x + (same_column ? (from.left ? -6 : 6) : 0), y - 4, format_bytes(arrow.bytes),
                same_column ? (from.left ? Svg::Anchor::kEnd : Svg::Anchor::kStart) : Svg::Anchor::kMiddle,
                fmt::format("font-size='10' fill='{}'", colour));
    }
  }

  const transfer::ReshardPlan& plan_;
  const std::vector<LinkLoad> loads_;
  bool per_flow_ = true;
  const std::vector<Arrow> arrows_;
  double height_ = 0;
  std::vector<Box> boxes_;
  Svg svg_;
};

}  // namespace

Svg draw_plan(const transfer::ReshardPlan& plan, const transfer::Network& network) { return Drawing(plan, network).draw(); }

}  // namespace weft::apps
