#include "apps/cli/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace weft::apps {
namespace {

using mesh::ActionKind;

/// Fill character and background colour of an action's block.
struct BlockStyle {
  char fill;
  const char* colour;
};

BlockStyle style_of(ActionKind kind, int chunk) {
  switch (kind) {
    case ActionKind::kForward: return {'-', chunk == 0 ? "\x1b[30;44m" : "\x1b[30;104m"};
    case ActionKind::kBackward: return {'=', chunk == 0 ? "\x1b[30;42m" : "\x1b[30;102m"};
    case ActionKind::kInputGrad: return {'~', chunk == 0 ? "\x1b[30;46m" : "\x1b[30;106m"};
    case ActionKind::kWeightGrad: return {'.', chunk == 0 ? "\x1b[30;43m" : "\x1b[30;103m"};
    case ActionKind::kVocabularyScores: return {'^', "\x1b[30;45m"};
    case ActionKind::kVocabularyGrads: return {'+', "\x1b[30;105m"};
    case ActionKind::kInputForward: return {'<', "\x1b[37;44m"};
    case ActionKind::kInputBackward: return {'>', "\x1b[37;42m"};
    default: return {'*', "\x1b[30;47m"};
  }
}

/// Returns a single letter, so that I is the input gradient.
std::string_view short_name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kInputForward: return "i";
    case ActionKind::kInputBackward: return "b";
    default: return to_string(kind).substr(0, 1);
  }
}

class TextTimeline {
 public:
  TextTimeline(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation,
               const TimelineStyle& style)
      : one_(one), simulation_(simulation), style_(style) {
    label_width_ = static_cast<int>(fmt::formatted_size("{}", simulation.actors.size() - 1)) + 2;
    const int room = std::max(20, style.columns - label_width_ - 1);
    // Uses whole columns per shortest action if the width allows, so that equal actions have equal
    // widths.
    double shortest = simulation.makespan;
    for (const auto& actor : simulation.actors) {
      for (const auto& action : actor.actions) {
        if (action.end > action.start) shortest = std::min(shortest, action.end - action.start);
      }
    }
    const double fit = shortest > 0 ? room * shortest / simulation.makespan : 1;
    const double columns = fit >= 1 ? std::min(4.0, std::floor(fit)) : fit;
    scale_ = simulation.makespan > 0 ? columns / shortest : 0;
    width_ = std::lround(simulation.makespan * scale_);
  }

  std::string draw() {
    std::string text;
    for (std::size_t actor = 0; actor < simulation_.actors.size(); ++actor)
      text += label(actor) + row(actor) + "\n";
    if (!unlabelled_kinds_.empty()) text += legend();
    const double peak = simulation_.peak();
    if (peak <= 0) return text;
    text += fmt::format("memory, of {:.6g}\n", peak);
    for (std::size_t actor = 0; actor < simulation_.actors.size(); ++actor) {
      text += label(actor) + memory(actor, peak) +
              fmt::format("  {:.6g}\n", simulation_.actors[actor].peak);
    }
    return text;
  }

 private:
  int column(double time) const { return std::lround(time * scale_); }
  std::string label(std::size_t actor) const {
    return fmt::format("{:>{}}  ", actor, label_width_ - 2);
  }

  /// Explains the kinds of actions whose letter did not fit in all their blocks.
  std::string legend() const {
    std::string text = "numbers: microbatches;";
    for (const ActionKind kind : unlabelled_kinds_) {
      const BlockStyle style = style_of(kind, 0);
      const std::string block = std::string(short_name_of(kind)) + std::string(2, style.fill);
      text += fmt::format(" {} {}{}", style_.colour ? style.colour + block + "\x1b[0m" : block,
                          name_in_words(kind), kind == *unlabelled_kinds_.rbegin() ? "" : ",");
    }
    return text + "\n";
  }

  std::string row(std::size_t actor) {
    std::string text;
    int at = 0;
    for (const mesh::SimulatedAction& one : simulation_.actors[actor].actions) {
      const int from = std::max(at, column(one.start)), to = std::max(from, column(one.end));
      text += std::string(from - at, ' ');
      at = to;
      const int chunk = one.action.stage / static_cast<int>(one_.schedule.actors.size());
      const BlockStyle style = style_of(one.action.kind, chunk);
      std::string block = fmt::format(
          "{}{}", has_microbatch(one.action.kind) ? short_name_of(one.action.kind) : "*",
          has_microbatch(one.action.kind) ? fmt::format("{}", one.action.microbatch) : "");
      // If letter and number do not fit, the fill or the colour shows the kind. In a single column
      // the letter does.
      const int room = to - from;
      if (room > 0 && std::ssize(block) >= room && has_microbatch(one.action.kind)) {
        const std::string number = block.substr(1);
        const int needed = static_cast<int>(number.size()) + (style_.colour ? 0 : 1);
        block = room > 1 && needed <= room ? number : block.substr(0, 1);
        unlabelled_kinds_.insert(one.action.kind);
      }
      block.resize(to - from, style.fill);
      text += style_.colour ? style.colour + block + "\x1b[0m" : block;
    }
    return text + std::string(std::max(0, width_ - at), ' ');
  }

  /// Draws the peak memory within the time of each column.
  std::string memory(std::size_t actor, double peak) const {
    static constexpr const char* kLevels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const std::vector<MemoryLevel>& levels = simulation_.actors[actor].memory;
    std::string text;
    std::size_t next = 0;
    double held = 0;
    for (int at = 0; at < width_; ++at) {
      double most = held;
      for (; next < levels.size() && levels[next].time * scale_ < at + 1 - 1e-9; ++next) {
        held = levels[next].held;
        // Memory released at the start of a column does not count in it.
        if (levels[next].time * scale_ <= at + 1e-9) most = held;
        most = std::max(most, held);
      }
      text += kLevels[static_cast<std::size_t>(
          std::clamp(std::ceil(8 * most / peak - 1e-9), 0.0, 8.0))];
    }
    return text;
  }

  const ScheduleCase& one_;
  const mesh::ScheduleSimulation& simulation_;
  const TimelineStyle& style_;
  int label_width_ = 3;
  double scale_ = 1;  ///< Columns per unit of time.
  int width_ = 0;
  /// Kinds with a block that is too small for their letter.
  std::set<ActionKind> unlabelled_kinds_;
};

}  // namespace

std::string draw_timeline(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation,
                          const TimelineStyle& style) {
  return TextTimeline(one, simulation, style).draw();
}

}  // namespace weft::apps
