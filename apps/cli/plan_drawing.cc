#include "apps/cli/plan_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "apps/cli/link_loads.h"
#include "apps/cli/plan_arrows.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using transfer::DeviceId;
using transfer::HostId;

constexpr double kTop = 92, kBottom = 24, kMargin = 24, kTitleWidth = 640;
constexpr double kHostWidth = 232, kHostGap = 34;
constexpr double kBetween = 330;        // gap between the columns
constexpr double kReservedBytes = 150;  // width beside a column for arrows between its own hosts
// height below the devices of a host for transfers among them
constexpr double kInside = 16;
constexpr double kDevice = 22, kDeviceGap = 5, kLinkHeight = 9;
constexpr std::size_t kMostLabels = 24;
constexpr const char* kColours[] = {"#2f6fde", "#e8590c", "#2b8a3e", "#ae3ec9",
                                    "#e03131", "#0c8599", "#b08900", "#5f3dc4",
                                    "#d6336c", "#66801f", "#495057", "#1098ad"};

struct Box {
  double x = 0, y = 0, height = 0;
  bool left = false;

  double edge_x(bool outer) const { return (left != outer) ? x + kHostWidth : x; }
};

using Point = std::pair<double, double>;

/// Line of an arrow and its label.
struct Curve {
  std::vector<Point> points;
  double direction = 1;  ///< Direction of its end: 1 is to the right.
  double width = 1;
  std::string label;
};

struct Rectangle {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool meets(const Rectangle& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  bool holds(const Point& point) const {
    return point.first > left && point.first < right && point.second > top && point.second < bottom;
  }
};

/// Columns of the hosts, and whether arrows are drawn beside a column.
struct Columns {
  std::vector<bool> is_left;  ///< True, by host, if the host has no destination device.
  bool any_left = false;
  bool beside_left = false, beside_right = false;

  double left_x() const { return kMargin + (beside_left ? kReservedBytes : 0); }
  double right_x() const { return any_left ? left_x() + kHostWidth + kBetween : kMargin; }
  double width() const {
    return right_x() + kHostWidth + (beside_right ? kReservedBytes : 0) + kMargin;
  }
};

Columns columns_of(const transfer::ReshardPlan& plan, const std::vector<Arrow>& arrows) {
  std::set<HostId> wanting;
  for (const transfer::ReshardTask& task : plan.tasks)
    for (const transfer::Shard& shard : task.destination.shards)
      wanting.insert(plan.topology.host_of(shard.device));
  Columns columns;
  for (std::size_t host = 0; host < plan.topology.num_hosts(); ++host) {
    const bool left = !wanting.contains(HostId(host));
    columns.is_left.push_back(left);
    columns.any_left = columns.any_left || left;
  }
  for (const Arrow& arrow : arrows) {
    const bool left = columns.is_left[arrow.from.value()];
    if (left == columns.is_left[arrow.to.value()])
      (left ? columns.beside_left : columns.beside_right) = true;
  }
  return columns;
}

class PlanDrawing {
 public:
  PlanDrawing(const transfer::ReshardPlan& plan, const transfer::Network& network)
      : plan_(plan),
        loads_(link_loads(plan, network)),
        drawn_(arrows_of(plan)),
        arrows_(drawn_.between_hosts),
        boxes_(place_hosts()),
        svg_(width_, height_) {}

  Svg draw() {
    title();
    for (std::size_t host = 0; host < boxes_.size(); ++host) draw_host(host);
    draw_handovers();
    const std::vector<Curve> curves = curves_of_arrows();
    for (std::size_t i = 0; i < curves.size(); ++i)
      draw_arrow(curves[i], colour_of(arrows_[i].colour));
    if (curves.size() <= kMostLabels) draw_labels(curves);
    return std::move(svg_);
  }

 private:
  std::vector<Box> place_hosts() {
    // Reserves no space for parts that are not drawn.
    const Columns columns = columns_of(plan_, arrows_);
    width_ = std::max(columns.width(), kTitleWidth);
    std::vector<int> devices(plan_.topology.num_hosts());
    for (const HostId host : plan_.topology.host_of_device) ++devices[host.value()];
    std::vector<Box> boxes(devices.size());
    double left = kTop, right = kTop;
    for (std::size_t host = 0; host < boxes.size(); ++host) {
      Box& box = boxes[host];
      box.left = columns.is_left[host];
      const int rows = (devices[host] + devices_per_row() - 1) / devices_per_row();
      box.height = 26 + rows * (kDevice + kDeviceGap) + inside() + 2 * (kLinkHeight + 5) + 8;
      double& y = box.left ? left : right;
      box.x = box.left ? columns.left_x() : columns.right_x();
      box.y = y;
      y += box.height + kHostGap;
    }
    height_ = std::max(left, right) - kHostGap + kBottom;
    return boxes;
  }

  double inside() const { return drawn_.inside_hosts.empty() ? 0 : kInside; }

  static int devices_per_row() {
    return static_cast<int>((kHostWidth - 12) / (kDevice + kDeviceGap));
  }

  void title() {
    std::uint64_t bytes = 0;
    for (const transfer::ReshardTask& task : plan_.tasks) bytes += task.type.bytes();
    svg_.text(24, 34,
              fmt::format("{}{} by {}",
                          plan_.tasks.size() == 1 ? to_string(plan_.tasks.front().type) + ", " : "",
                          format_bytes(bytes), to_string(plan_.strategy)),
              Svg::Anchor::kStart, "font-size='19' font-weight='600'");
    svg_.text(
        24, 58,
        fmt::format("predicted {}; no plan can take less than {}. {}",
                    format_seconds(plan_.predicted_seconds), format_seconds(plan_.limit.seconds),
                    drawn_.per_flow ? "One colour per flow, width by bytes."
                                    : "One colour per sending host, width by bytes."),
        Svg::Anchor::kStart, "font-size='13' fill='#57606a'");
  }

  void draw_host(std::size_t host) {
    const Box& box = boxes_[host];
    svg_.rect(box.x, box.y, kHostWidth, box.height, "fill='#f6f8fa' stroke='#afb8c1' rx='6'");
    svg_.text(box.x + 8, box.y + 17, fmt::format("host {}", host), Svg::Anchor::kStart,
              "font-size='13' font-weight='600'");
    int at = 0;
    for (std::size_t device = 0; device < plan_.topology.num_devices(); ++device) {
      if (plan_.topology.host_of_device[device].value() != host) continue;
      const int row = at / devices_per_row();
      const double x = box.x + 8 + (at % devices_per_row()) * (kDevice + kDeviceGap),
                   y = box.y + 25 + row * (kDevice + kDeviceGap);
      ++at;
      device_places_[DeviceId(device)] = {x, y};
      const auto [holds, wants] = role(DeviceId(device));
      svg_.rect(x, y, kDevice, kDevice,
                fmt::format("fill='{}' stroke='{}' rx='3'",
                            holds   ? "#dbe4ff"
                            : wants ? "#fff"
                                    : "#eaeef2",
                            wants ? "#2b8a3e" : "#afb8c1"),
                fmt::format("device {}: {}{}{}", device, holds ? "holds" : "",
                            holds && wants ? " and " : "", wants ? "wants" : ""));
      svg_.text(x + kDevice / 2, y + 15, fmt::format("{}", device), Svg::Anchor::kMiddle,
                "font-size='10'");
    }
    const LinkLoad& load = loads_[host];
    const double bar = kHostWidth - 110;
    double y = box.y + box.height - 2 * (kLinkHeight + 5) - 2;
    for (const auto& [name, bytes, seconds] : {std::tuple("out", load.bytes_out, load.seconds_out),
                                               std::tuple("in", load.bytes_in, load.seconds_in)}) {
      const double share =
          plan_.predicted_seconds > 0 ? std::min(1.0, seconds / plan_.predicted_seconds) : 0;
      svg_.text(box.x + 8, y + kLinkHeight, name, Svg::Anchor::kStart,
                "font-size='10' fill='#57606a'");
      svg_.rect(box.x + 30, y, bar, kLinkHeight, "fill='#eaeef2'");
      svg_.rect(box.x + 30, y, bar * share, kLinkHeight, "fill='#57606a'");
      svg_.text(box.x + 36 + bar, y + kLinkHeight,
                fmt::format("{} {:.0f} %", format_bytes(bytes), 100 * share), Svg::Anchor::kStart,
                "font-size='10' fill='#57606a'");
      y += kLinkHeight + 5;
    }
  }

  std::pair<bool, bool> role(DeviceId device) const {
    bool holds = false, wants = false;
    for (const transfer::ReshardTask& task : plan_.tasks) {
      holds = holds || task.source_region_of(device) != nullptr;
      wants = wants || task.destination.region_of(device) != nullptr;
    }
    return {holds, wants};
  }

  static const char* colour_of(std::size_t index) { return kColours[index % std::size(kColours)]; }

  double width_of(std::uint64_t bytes) const {
    std::uint64_t most = 1;
    for (const Arrow& each : arrows_) most = std::max(most, each.bytes);
    for (const IntraHostTransfer& each : drawn_.inside_hosts) most = std::max(most, each.bytes);
    return 1.2 + 3.5 * bytes / most;
  }

  /// Draws transfers among the devices of a host as arcs below their squares.
  void draw_handovers() {
    for (const IntraHostTransfer& each : drawn_.inside_hosts) {
      const auto [x1, y1] = device_places_.at(each.from);
      const auto [x2, y2] = device_places_.at(each.to);
      const double way = x2 > x1 ? 1 : -1, from = x1 + kDevice / 2 + 3 * way,
                   to = x2 + kDevice / 2 - 3 * way;
      const double deep = std::max(y1, y2) + kDevice +
                          kInside * (0.55 + 0.45 * std::min(1.0, std::abs(x2 - x1) / 80)) + 4;
      std::vector<Point> points;
      for (int i = 0; i <= 16; ++i) {
        const double t = i / 16.0, r = 1 - t;
        points.emplace_back(r * r * from + 2 * r * t * (from + to) / 2 + t * t * to,
                            r * r * (y1 + kDevice) +
                                2 * r * t * (2 * deep - std::max(y1, y2) - kDevice) +
                                t * t * (y2 + kDevice));
      }
      const double width = 0.5 * width_of(each.bytes);
      const auto& [x, y] = points.back();
      const std::string style = fmt::format(
          "stroke='{}' stroke-width='{:.1f}' stroke-opacity='0.8'", colour_of(each.colour), width);
      svg_.polyline(points, style);
      svg_.polyline({{x - way * 1 - 3, y + 5}, {x, y}, {x - way * 1 + 3, y + 5}}, style);
    }
  }

  /// Returns the heights of arrow ends on one side of a host. Arrows from higher hosts end higher.
  std::map<std::size_t, double> arrow_heights_on(std::size_t host, bool outer, bool starts) const {
    // y of the other end's host, arrow, true if it starts here
    std::vector<std::tuple<double, std::size_t, bool>> ends;
    for (std::size_t i = 0; i < arrows_.size(); ++i) {
      const std::size_t from = arrows_[i].from.value(), to = arrows_[i].to.value();
      if ((boxes_[from].left == boxes_[to].left) != outer) continue;
      if (from == host) ends.emplace_back(boxes_[to].y, i, true);
      if (to == host) ends.emplace_back(boxes_[from].y, i, false);
    }
    std::sort(ends.begin(), ends.end());
    const double room = boxes_[host].height - 24,
                 step = ends.empty() ? 0 : std::min(12.0, room / ends.size());
    std::map<std::size_t, double> heights;
    for (std::size_t place = 0; place < ends.size(); ++place) {
      if (std::get<2>(ends[place]) == starts)
        heights[std::get<1>(ends[place])] = boxes_[host].y + 14 + step * place;
    }
    return heights;
  }

  std::vector<Curve> curves_of_arrows() const {
    std::vector<Curve> curves;
    for (std::size_t i = 0; i < arrows_.size(); ++i) {
      const Arrow& arrow = arrows_[i];
      const Box& from = boxes_[arrow.from.value()];
      const Box& to = boxes_[arrow.to.value()];
      const bool same_column = from.left == to.left;
      const double x1 = from.edge_x(same_column), x2 = to.edge_x(same_column);
      const double y1 = arrow_heights_on(arrow.from.value(), same_column, true).at(i),
                   y2 = arrow_heights_on(arrow.to.value(), same_column, false).at(i);
      // Draws a cubic curve from side to side as short lines.
      const double towards =
          same_column
              ? (from.left ? -1 : 1) * std::min(1.2 * kReservedBytes, 30 + 0.3 * std::abs(y2 - y1))
              : (from.left ? 150 : -150);
      const double cx1 = x1 + towards, cx2 = same_column ? x2 + towards : x2 - towards;
      Curve curve{{}, cx2 < x2 ? 1.0 : -1.0, width_of(arrow.bytes), format_bytes(arrow.bytes)};
      for (int step = 0; step <= 32; ++step) {
        const double t = step / 32.0, r = 1 - t;
        curve.points.emplace_back(
            r * r * r * x1 + 3 * r * r * t * cx1 + 3 * r * t * t * cx2 + t * t * t * x2,
            r * r * r * y1 + 3 * r * r * t * y1 + 3 * r * t * t * y2 + t * t * t * y2);
      }
      curves.push_back(std::move(curve));
    }
    return curves;
  }

  void draw_arrow(const Curve& curve, const char* colour) {
    svg_.polyline(
        curve.points,
        fmt::format("stroke='{}' stroke-width='{:.1f}' stroke-opacity='0.8'", colour, curve.width));
    const double head = 5 + curve.width;
    const auto& [x, y] = curve.points.back();
    svg_.polyline(
        {{x - curve.direction * head, y - head / 2},
         {x, y},
         {x - curve.direction * head, y + head / 2}},
        fmt::format("stroke='{}' stroke-width='{:.1f}'", colour, std::min(curve.width, 3.0)));
  }

  /// Draws each label on its own arrow, at the place where it covers the fewest arrows, boxes and
  /// labels.
  void draw_labels(const std::vector<Curve>& curves) {
    std::vector<Rectangle> taken;
    for (std::size_t i = 0; i < curves.size(); ++i) {
      const double half = 3.2 * curves[i].label.size() + 3;
      Rectangle best;
      std::size_t least = std::string::npos;
      for (std::size_t at = 3; at <= 29; ++at) {
        const auto& [x, y] = curves[i].points[at];
        const Rectangle here{x - half, y - 6, x + half, y + 6};
        std::size_t covered = 0;
        for (const Rectangle& label : taken) covered += here.meets(label) ? 1000 : 0;
        for (const Box& box : boxes_)
          covered += here.meets({box.x, box.y, box.x + kHostWidth, box.y + box.height}) ? 100 : 0;
        for (std::size_t other = 0; other < curves.size(); ++other) {
          if (other == i) continue;
          for (std::size_t k = 0; k + 1 < curves[other].points.size(); ++k) {
            // Checks midpoints too, since points are some ten units apart.
            const auto& [ax, ay] = curves[other].points[k];
            const auto& [bx, by] = curves[other].points[k + 1];
            for (const double t : {0.0, 0.5})
              covered += here.holds({ax + t * (bx - ax), ay + t * (by - ay)}) ? 1 : 0;
          }
        }
        if (covered < least) {
          least = covered;
          best = here;
        }
      }
      taken.push_back(best);
      svg_.rect(best.left, best.top, best.right - best.left, best.bottom - best.top,
                "fill='#fff' fill-opacity='0.92' rx='3'");
      svg_.text((best.left + best.right) / 2, best.bottom - 2.5, curves[i].label,
                Svg::Anchor::kMiddle,
                fmt::format("font-size='10' fill='{}'", colour_of(arrows_[i].colour)));
    }
  }

  const transfer::ReshardPlan& plan_;
  const std::vector<LinkLoad> loads_;
  const Arrows drawn_;
  const std::vector<Arrow>& arrows_;  ///< Element of drawn_.
  double width_ = 0, height_ = 0;
  std::map<DeviceId, Point> device_places_;
  std::vector<Box> boxes_;
  Svg svg_;
};

}  // namespace

Svg draw_plan(const transfer::ReshardPlan& plan, const transfer::Network& network) {
  return PlanDrawing(plan, network).draw();
}

}  // namespace weft::apps
