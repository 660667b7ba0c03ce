#include "apps/bench/sharding/lanes_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/units.h"

namespace weft::apps {
namespace {

using mesh::ActionKind;

constexpr double kWidth = 1240, kLeft = 90, kRight = 28, kTop = 44, kLane = 26, kGap = 4,
                 kPanelHead = 24, kPanelGap = 18, kAxis = 36;

/// Returns the colour of a step: the second half, or the backward of a pair, is another one.
const char* colour_of(ActionKind kind, int microbatch) {
  if (kind == ActionKind::kForward) return microbatch == 0 ? "#4c6ef5" : "#91a7ff";
  if (kind == ActionKind::kWeightGrad) return microbatch == 0 ? "#e8590c" : "#ffa94d";
  return microbatch == 0 ? "#2b8a3e" : "#69db7c";
}

/// Lists that follow each other.
using ListSequence = std::vector<std::pair<const mesh::ActionListKey*, const mesh::ActionList*>>;

/// Returns the lists of stage 0 amid a step: its compounds, or its forward and its backward.
ListSequence lists_of(const mesh::TrainingPlan& plan) {
  ListSequence alone, compounds;
  if (plan.train.lists.empty()) return alone;
  for (const auto& [key, list] : plan.train.lists[mesh::MeshId(0)]) {
    const mesh::ListedAction& first = key.front();
    if (first.stage.value() != 0 || first.is_first_microbatch || first.is_last_microbatch) continue;
    if (key.size() > 1) compounds.emplace_back(&key, &list);
    else if (first.kind == ActionKind::kForward || first.kind == ActionKind::kBackward)
      alone.emplace_back(&key, &list);
  }
  return compounds.empty() ? alone : compounds;
}

class LanesDrawing {
 public:
  explicit LanesDrawing(const std::vector<NamedPlan>& plans) : svg_(kWidth, height(plans)) {
    for (const NamedPlan& one : plans) {
      const ListSequence lists = lists_of(one.plan);
      if (lists.empty()) continue;
      double seconds = 0;
      for (const auto& listed : lists) seconds += listed.second->list.seconds;
      all_ = std::max(all_, seconds);
      sequences_.emplace_back(one.name, lists);
    }
  }

  Svg draw() {
    legend();
    double y = kTop;
    for (const auto& [name, lists] : sequences_) y = panel(name, lists, y);
    axis(y);
    return std::move(svg_);
  }

 private:
  static double height(const std::vector<NamedPlan>& plans) {
    const auto panels = std::ranges::count_if(
        plans, [](const NamedPlan& one) { return !lists_of(one.plan).empty(); });
    return kTop + kAxis + static_cast<double>(panels) * (kPanelHead + 2 * kLane + kGap + kPanelGap);
  }
  double x(double seconds) const {
    return kLeft + (all_ > 0 ? seconds / all_ * (kWidth - kLeft - kRight) : 0);
  }

  void legend() {
    double at = kLeft;
    for (const auto& [kind, name] :
         {std::pair(ActionKind::kForward, "forward"), std::pair(ActionKind::kBackward, "backward"),
          std::pair(ActionKind::kWeightGrad, "weight gradient")}) {
      svg_.rect(at, 14, 12, 12, fmt::format("fill='{}'", colour_of(kind, 0)));
      svg_.rect(at + 13, 14, 12, 12, fmt::format("fill='{}'", colour_of(kind, 1)));
      svg_.text(at + 30, 24, name, Svg::Anchor::kStart, "font-size='12'");
      at += 60 + 7.2 * static_cast<double>(std::string_view(name).size());
    }
    svg_.text(at, 24, "Light shades: the other half, or the other microbatch. Red: gradients.",
              Svg::Anchor::kStart, "font-size='12' fill='#57606a'");
  }

  double panel(const std::string& name, const ListSequence& lists, double y) {
    double seconds = 0, exposed = 0;
    for (const auto& listed : lists) {
      seconds += listed.second->list.seconds;
      exposed += listed.second->list.exposed;
    }
    svg_.text(kLeft, y + 14,
              fmt::format("{}: {}, of it {} waiting for collectives", name, format_seconds(seconds),
                          format_seconds(exposed)),
              Svg::Anchor::kStart, "font-size='13' font-weight='600'");
    y += kPanelHead;
    const double network = y + kLane + kGap;
    svg_.text(kLeft - 8, y + 17, "compute", Svg::Anchor::kEnd, "font-size='12'");
    svg_.text(kLeft - 8, network + 17, "network", Svg::Anchor::kEnd, "font-size='12'");
    for (const double lane : {y, network})
      svg_.rect(kLeft, lane, x(seconds) - kLeft, kLane, "fill='#f1f3f5'");
    double from = 0;
    for (const auto& [key, list] : lists) {
      for (std::size_t step = 0; step < list->graph.steps.size(); ++step)
        draw_step(*key, *list, step, from, y, network);
      from += list->list.seconds;
    }
    return network + kLane + kPanelGap;
  }

  void draw_step(const mesh::ActionListKey& key, const mesh::ActionList& list, std::size_t step,
                 double from, double compute, double network) {
    const mesh::ListedStep& what = list.graph.steps[step];
    if (what.seconds <= 0) return;
    const bool computes = what.lane == mesh::StepLane::kCompute;
    const double begin = list.list.begin[step];
    // A collective has its lane for the last part of its time.
    const double end = computes ? begin + what.seconds : list.list.end[step];
    const double shown = computes ? begin : std::max(begin, end - what.latency - what.seconds);
    std::string colour = "#e03131";
    if (!list.members[step].empty()) {
      const mesh::ListedAction& action = key[list.members[step].front().member];
      colour = colour_of(action.kind, list.members[step].front().member);
    }
    const double width = std::max(x(from + end) - x(from + shown), 0.5);
    svg_.rect(x(from + shown), computes ? compute : network, width, kLane,
              fmt::format("fill='{}' stroke='white' stroke-width='0.4'", colour),
              fmt::format("{} to {}", format_seconds(from + shown), format_seconds(from + end)));
  }

  void axis(double y) {
    svg_.line(kLeft, y, kWidth - kRight, y, "stroke='#868e96'");
    for (int tick = 0; tick <= 10; ++tick) {
      const double seconds = all_ * tick / 10;
      svg_.line(x(seconds), y, x(seconds), y + 4, "stroke='#868e96'");
      svg_.text(x(seconds), y + 18, format_seconds(seconds), Svg::Anchor::kMiddle,
                "font-size='11'");
    }
  }

  std::vector<std::pair<std::string, ListSequence>> sequences_;
  double all_ = 0;  ///< Seconds of the longest sequence.
  Svg svg_;
};

}  // namespace

Svg draw_lanes(const std::vector<NamedPlan>& plans) { return LanesDrawing(plans).draw(); }

}  // namespace weft::apps
