#include "apps/cli/timeline_drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

using mesh::ActionKind;

constexpr double kWidth = 1240, kLeft = 56, kRight = 28, kPanelsTop = 58;
constexpr double kRow = 22, kTransfer = 5, kGap = 3, kPanelHead = 40, kPanelGap = 26, kMemory = 26,
                 kAxis = 50;

/// Returns the colour of a kind of action. The first stage of an actor has another shade than its
/// other stages.
const char* colour_of(ActionKind kind, bool first_chunk) {
  switch (kind) {
    case ActionKind::kForward: return first_chunk ? "#4c6ef5" : "#91a7ff";
    case ActionKind::kBackward: return first_chunk ? "#2b8a3e" : "#69db7c";
    case ActionKind::kInputGrad: return first_chunk ? "#0c8599" : "#66d9e8";
    case ActionKind::kWeightGrad: return first_chunk ? "#e8590c" : "#ffa94d";
    case ActionKind::kRecompute: return "#868e96";
    case ActionKind::kVocabularyScores: return "#ae3ec9";
    case ActionKind::kVocabularyGrads: return "#d6336c";
    case ActionKind::kInputForward: return "#5f3dc4";
    case ActionKind::kInputBackward: return "#f783ac";
    default: return "#343a40";
  }
}

class ScheduleDrawing {
 public:
  ScheduleDrawing(const std::vector<ScheduleCase>& cases,
                  const std::vector<mesh::ScheduleSimulation>& simulations)
      : cases_(cases), simulations_(simulations), svg_(kWidth, height(simulations)) {
    for (const mesh::ScheduleSimulation& one : simulations) {
      makespan_ = std::max(makespan_, one.makespan);
      most_ = std::max(most_, one.peak());
    }
  }

  Svg draw() {
    legend();
    double y = kPanelsTop;
    for (std::size_t i = 0; i < cases_.size(); ++i) y = panel(i, y);
    axis(y - kPanelGap + 4);
    return std::move(svg_);
  }

 private:
  static double panel_height(const mesh::ScheduleSimulation& simulation) {
    const double rows = simulation.actors.size();
    return kPanelHead + rows * (kRow + kTransfer + kGap) + 8 + rows * (kMemory + kGap);
  }

  static double height(const std::vector<mesh::ScheduleSimulation>& simulations) {
    double sum = kPanelsTop + kAxis;
    for (const mesh::ScheduleSimulation& one : simulations) sum += panel_height(one) + kPanelGap;
    return sum;
  }

  double x(double time) const {
    return kLeft + (makespan_ > 0 ? time / makespan_ * (kWidth - kLeft - kRight) : 0);
  }

  bool has_passes() const {
    return std::ranges::any_of(
        cases_, [](const ScheduleCase& one) { return one.schedule.vocabulary_barriers > 0; });
  }

  void legend() {
    double at = kLeft;
    for (const auto& [kind, name] :
         {std::pair(ActionKind::kForward, "forward"), std::pair(ActionKind::kBackward, "backward"),
          std::pair(ActionKind::kInputGrad, "input gradient"),
          std::pair(ActionKind::kWeightGrad, "weight gradient")}) {
      svg_.rect(at, 18, 12, 12, fmt::format("fill='{}'", colour_of(kind, true)));
      svg_.rect(at + 13, 18, 12, 12, fmt::format("fill='{}'", colour_of(kind, false)));
      svg_.text(at + 30, 28, name, Svg::Anchor::kStart, "font-size='12'");
      at += 60 + 7.2 * std::string_view(name).size();
    }
    if (has_passes()) {
      double pass = 2 * kLeft + 400;
      for (const auto& [kind, name] :
           {std::pair(ActionKind::kVocabularyScores, "S, scores of a part of the vocabulary"),
            std::pair(ActionKind::kVocabularyGrads, "T, their gradients"),
            std::pair(ActionKind::kInputForward, "IF, embedding"),
            std::pair(ActionKind::kInputBackward, "IB, its gradients")}) {
        svg_.rect(pass, 36, 12, 12, fmt::format("fill='{}'", colour_of(kind, true)));
        svg_.text(pass + 17, 46, name, Svg::Anchor::kStart, "font-size='12'");
        pass += 36 + 6.6 * std::string_view(name).size();
      }
    }
    svg_.rect(at, 22, 24, 3, "fill='#e03131'");
    svg_.text(at + 30, 28, "a tensor on its way to this actor", Svg::Anchor::kStart,
              "font-size='12'");
    at += 240;
    svg_.rect(at, 18, 24, 12, "fill='#dee2e6'");
    svg_.text(at + 30, 28, "memory held; dashed: its cap", Svg::Anchor::kStart, "font-size='12'");
    svg_.text(kLeft, 46,
              "Light shades: an actor's later stages. Numbers: microbatches. Above each other: a "
              "compound.",
              Svg::Anchor::kStart, "font-size='11' fill='#57606a'");
  }

  double panel(std::size_t index, double y) {
    const ScheduleCase& one = cases_[index];
    const mesh::ScheduleSimulation& simulation = simulations_[index];
    svg_.text(kLeft, y + 16, one.label, Svg::Anchor::kStart, "font-size='16' font-weight='600'");
    svg_.text(
        kLeft, y + 32,
        fmt::format(
            "makespan {:.6g}, bubble {:.1f} %, exposed transfer {:.6g}, peak memory {:.6g}; {}",
            simulation.makespan, 100 * simulation.bubble_rate(), simulation.exposed_transfer_time,
            simulation.peak(), one.settings),
        Svg::Anchor::kStart, "font-size='12' fill='#57606a'");
    y += kPanelHead;
    for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
      actor_row(one, simulation, actor, y);
      y += kRow + kTransfer + kGap;
    }
    y += 8;
    for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
      memory_row(one, simulation.actors[actor], actor, y);
      y += kMemory + kGap;
    }
    return y + kPanelGap;
  }

  void actor_row(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation,
                 std::size_t actor, double y) {
    svg_.text(kLeft - 8, y + 15, fmt::format("{}", actor), Svg::Anchor::kEnd, "font-size='12'");
    svg_.rect(kLeft, y, x(simulation.makespan) - kLeft, kRow, "fill='#f8f9fa'");
    const std::vector<mesh::SimulatedAction>& actions = simulation.actors[actor].actions;
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(one.schedule.actors[actor], begin);
      // Members of a compound share its time, one above the other.
      const double height = kRow / static_cast<double>(end - begin);
      for (std::size_t i = begin; i < end; ++i)
        action_block(actions[i].action, actions[begin].start, actions[end - 1].end,
                     y + static_cast<double>(i - begin) * height, height,
                     actions[i].action.stage < std::ssize(simulation.actors));
      begin = end;
    }
    received_transfers(one, simulation, actor, y);
  }

  void action_block(const mesh::Action& action, double start, double end, double y, double height,
                    bool first_chunk) {
    const double from = x(start);
    double width = x(end) - from;
    if (width <= 0 && !is_vocabulary_pass(action.kind)) return;
    width = std::max(width, 1.5);  // keeps passes that take no time visible
    svg_.rect(from, y, width, height,
              fmt::format("fill='{}' stroke='#fff' stroke-width='{}'",
                          colour_of(action.kind, first_chunk), width > 4 ? 0.8 : 0.2),
              fmt::format("{} from {:.6g} to {:.6g}", to_string(action), start, end));
    const std::string number =
        has_microbatch(action.kind) ? fmt::format("{}", action.microbatch) : "";
    if (width > 6.5 * static_cast<double>(number.size()) + 1)
      svg_.text(from + width / 2, y + height / 2 + 4, number, Svg::Anchor::kMiddle,
                first_chunk ? "font-size='10' fill='#fff'" : "font-size='10' fill='#212529'");
  }

  /// Draws lines below an actor's row, one per transfer to it.
  void received_transfers(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation,
                          std::size_t actor, double y) {
    for (const mesh::SimulatedTransfer& transfer : simulation.transfers) {
      if (transfer.to_actor != static_cast<int>(actor) || transfer.end <= transfer.start) continue;
      const mesh::StageEdge& edge = one.costs.edges[transfer.edge].edge;
      svg_.rect(
          x(transfer.start), y + kRow + (transfer.backward ? 2.5 : 0.5),
          std::max(0.5, x(transfer.end) - x(transfer.start)), 1.8,
          fmt::format("fill='{}' fill-opacity='0.65'", transfer.backward ? "#c2255c" : "#e03131"),
          fmt::format("{} of microbatch {}, stage {} to {}, from {:.6g} to {:.6g}",
                      transfer.backward ? "gradient" : "activation", transfer.microbatch,
                      transfer.backward ? edge.to : edge.from,
                      transfer.backward ? edge.from : edge.to, transfer.start, transfer.end));
    }
  }

  void memory_row(const ScheduleCase& one, const mesh::SimulatedActor& actor, std::size_t index,
                  double y) {
    const bool capped = !one.limits.memory_of_actor.empty();
    const double top = std::max(most_, capped ? one.limits.memory_of_actor[index] : 0.0);
    if (top <= 0) return;
    const auto level_y = [&](double held) { return y + kMemory - held / top * (kMemory - 2); };
    svg_.text(kLeft - 8, y + kMemory - 2, fmt::format("{}", index), Svg::Anchor::kEnd,
              "font-size='11' fill='#57606a'");
    double held = 0, from = 0;
    const auto bar = [&](double to) {
      if (held > 0 && to > from) {
        const bool over = capped && held > one.limits.memory_of_actor[index] * (1 + 1e-9);
        svg_.rect(x(from), level_y(held), x(to) - x(from), y + kMemory - level_y(held),
                  over ? "fill='#ffa8a8'" : "fill='#dee2e6'");
      }
      from = to;
    };
    std::vector<std::pair<double, double>> line = {{x(0), level_y(0)}};
    for (const MemoryLevel& level : actor.memory) {
      bar(level.time);
      line.emplace_back(x(level.time), level_y(held));
      held = level.held;
      line.emplace_back(x(level.time), level_y(held));
    }
    svg_.polyline(line, "stroke='#495057' stroke-width='1'");
    if (capped) {
      const double cap = level_y(one.limits.memory_of_actor[index]);
      svg_.line(kLeft, cap, kWidth - kRight, cap,
                "stroke='#e03131' stroke-dasharray='4 3' stroke-width='0.8'");
    }
    svg_.text(kWidth - kRight + 3, y + kMemory - 2, fmt::format("{:.4g}", actor.peak),
              Svg::Anchor::kStart, "font-size='10' fill='#57606a'");
  }

  void axis(double y) {
    svg_.line(kLeft, y, kWidth - kRight, y, "stroke='#868e96'");
    const std::vector<double> ticks = round_ticks(0, makespan_, 12);
    const double spacing = ticks.size() > 1 ? ticks[1] - ticks[0] : makespan_;
    for (const double tick : ticks) {
      if (tick > makespan_) continue;
      svg_.line(x(tick), y, x(tick), y + 5, "stroke='#868e96'");
      svg_.text(x(tick), y + 18, tick_label(tick, spacing), Svg::Anchor::kMiddle,
                "font-size='11' fill='#57606a'");
    }
    svg_.text((kLeft + kWidth - kRight) / 2, y + 34,
              "time, in the unit of F, I, W and transfers; a row per actor, memory below",
              Svg::Anchor::kMiddle, "font-size='11' fill='#57606a'");
  }

  const std::vector<ScheduleCase>& cases_;
  const std::vector<mesh::ScheduleSimulation>& simulations_;
  double makespan_ = 0;
  double most_ = 0;  ///< Largest memory of any actor.
  Svg svg_;
};

}  // namespace

Svg draw_schedules(const std::vector<ScheduleCase>& cases,
                   const std::vector<mesh::ScheduleSimulation>& simulations) {
  return ScheduleDrawing(cases, simulations).draw();
}

}  // namespace weft::apps
