#include "apps/select/progress_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "apps/run_files/progress_display.h"
#include "apps/selection/bounding.h"
#include "apps/svg/plot.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr double kStagesLeft = 72, kStagesTop = 64, kStagesWidth = 760, kSharesHeight = 260;
constexpr double kTimesGap = 34, kTimesHeight = 110, kStagesBottom = 66, kStagesRight = 24;
constexpr double kBetweenGroups = 26, kRoundWidth = 40, kNumberWidth = 26;
constexpr std::string_view kChosenBar = "#0072b2", kInPlayBar = "#a9d5f0", kLeftOutBar = "#d5d8db";
constexpr std::string_view kTimeBar = "#e69f00";

/// Bounding steps or rounds, drawn side by side.
struct StageGroup {
  std::span<const SelectionStage> stages;
  double left = 0, width = 0;
  const char* name = "";

  double slot() const { return width / static_cast<double>(stages.size()); }
};

/// Divides the width by the number of stages, but keeps enough for the labels of rounds.
std::vector<StageGroup> groups_of(std::span<const SelectionStage> stages) {
  const auto steps = static_cast<std::size_t>(
      std::ranges::count(stages, std::uint32_t{0}, &SelectionStage::partitions));
  const std::size_t rounds = stages.size() - steps;
  if (steps == 0 || rounds == 0)
    return {{stages, kStagesLeft, kStagesWidth,
             steps == 0 ? "round of m partitions" : "step of bounding"}};
  const double room = kStagesWidth - kBetweenGroups;
  const double of_rounds =
      std::max(room * static_cast<double>(rounds) / static_cast<double>(stages.size()),
               std::min(room / 2, kRoundWidth * static_cast<double>(rounds)));
  return {{stages.first(steps), kStagesLeft, room - of_rounds, "step of bounding"},
          {stages.subspan(steps), kStagesLeft + kStagesWidth - of_rounds, of_rounds,
           "round of m partitions"}};
}

std::string tooltip_of(const SelectionStage& stage, std::size_t number) {
  const auto text = [](std::uint64_t count) { return with_thousands(static_cast<double>(count)); };
  return fmt::format("after {} {}: {} chosen, {} in play, {} left out; {}",
                     stage.partitions > 0 ? "round" : "step", number, text(stage.chosen),
                     text(stage.in_play), text(stage.left_out), format_seconds(stage.seconds));
}

void draw_group(Svg& svg, const StageGroup& group, const PlotRectangle& shares,
                const PlotRectangle& times, double most_seconds) {
  const double slot = group.slot(), bar = std::min(0.8 * slot, 90.0);
  // Labels every stage, or every second, fifth, tenth and so on, as space allows.
  std::size_t every = 1;
  for (int i = 0; static_cast<double>(every) * slot < kNumberWidth; ++i)
    every = i % 3 == 1 ? every * 5 / 2 : every * 2;
  const double bottom = times.top + times.height;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    const SelectionStage& stage = group.stages[i];
    const double middle = group.left + (static_cast<double>(i) + 0.5) * slot;
    const double left = middle - bar / 2;
    const double all = static_cast<double>(stage.chosen + stage.in_play + stage.left_out);
    const std::string tooltip = tooltip_of(stage, i + 1);
    double top = shares.top + shares.height;
    for (const auto& [count, colour] :
         {std::pair(stage.chosen, kChosenBar), std::pair(stage.in_play, kInPlayBar),
          std::pair(stage.left_out, kLeftOutBar)}) {
      const double height = shares.height * static_cast<double>(count) / all;
      top -= height;
      if (count > 0) svg.rect(left, top, bar, height, fmt::format("fill='{}'", colour), tooltip);
    }
    const double height = times.height * stage.seconds / most_seconds;
    svg.rect(left, bottom - height, bar, height, fmt::format("fill='{}'", kTimeBar), tooltip);
    if (i != 0 && (i + 1) % every != 0) continue;
    svg.text(middle, bottom + 16, std::to_string(i + 1), Svg::Anchor::kMiddle, "font-size='11'");
    if (stage.partitions > 0 && slot >= kRoundWidth)
      svg.text(middle, bottom + 30, fmt::format("m = {}", stage.partitions), Svg::Anchor::kMiddle,
               "font-size='10' fill='#57606a'");
  }
  svg.line(group.left, bottom, group.left + group.width, bottom, "stroke='#8c959f'");
  svg.line(group.left, shares.top + shares.height, group.left + group.width,
           shares.top + shares.height, "stroke='#8c959f'");
  svg.text(group.left + group.width / 2, bottom + 50, group.name, Svg::Anchor::kMiddle,
           "font-size='12'");
}

}  // namespace

std::vector<SelectionStage> stages_of(std::uint64_t points, std::uint64_t count,
                                      const SelectionProgress& progress) {
  std::vector<SelectionStage> stages;
  SelectionStage now{.in_play = points};
  BoundingLoop loop(points, count);
  for (std::size_t step = 0; step < progress.decided.size(); ++step) {
    const std::uint64_t decided = progress.decided[step];
    const bool grows = loop.next() == BoundingLoop::BoundingStep::kGrow ||
                       loop.next() == BoundingLoop::BoundingStep::kAcceptRest;
    (grows ? now.chosen : now.left_out) += decided;
    now.in_play -= decided;
    now.seconds = progress.step_seconds.at(step);
    loop.report_decided(decided);
    stages.push_back(now);
  }
  for (const RoundResult& round : progress.rounds) {
    now.partitions = round.partitions;
    now.left_out += now.in_play - round.points;
    now.in_play = round.points;
    now.seconds = round.seconds;
    stages.push_back(now);
  }
  // After the last round, all points in play are chosen.
  if (!stages.empty() && now.chosen + now.in_play == count)
    stages.back() = {now.partitions, count, 0, now.left_out, now.seconds};
  return stages;
}

Svg draw_progress(const std::vector<SelectionStage>& stages, const std::string& title) {
  const PlotRectangle shares{kStagesLeft, kStagesTop, kStagesWidth, kSharesHeight};
  const PlotRectangle times{kStagesLeft, kStagesTop + kSharesHeight + kTimesGap, kStagesWidth,
                            kTimesHeight};
  Svg svg(kStagesLeft + kStagesWidth + kStagesRight, times.top + kTimesHeight + kStagesBottom);
  svg.text(kStagesLeft, 24, title, Svg::Anchor::kStart, "font-size='15' font-weight='bold'");
  draw_legend(svg, kStagesLeft, 38,
              {{kChosenBar, "chosen"},
               {kInPlayBar, "in play"},
               {kLeftOutBar, "left out"},
               {kTimeBar, "time"}});
  double most = 0;
  for (const SelectionStage& stage : stages) most = std::max(most, stage.seconds);
  most = most > 0 ? 1.08 * most : 1;
  draw_y_axis(svg, shares, 0, 100, "% of all points");
  draw_y_axis(svg, times, 0, most, "seconds");
  if (stages.empty()) return svg;
  for (const StageGroup& group : groups_of(stages)) draw_group(svg, group, shares, times, most);
  return svg;
}

}  // namespace weft::apps
