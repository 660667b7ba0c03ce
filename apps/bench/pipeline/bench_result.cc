#include "apps/bench/pipeline/bench_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/statistics.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

template <typename Wanted>
const ArmResult* fastest(const std::vector<ArmResult>& arms, Wanted&& wanted) {
  const ArmResult* best = nullptr;
  for (const ArmResult& result : arms) {
    if (wanted(result.arm) && (best == nullptr || result.median() < best->median())) best = &result;
  }
  return best;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string text = " ";
  for (std::size_t i = 0; i < cells.size(); ++i)
    text += i < 3 ? fmt::format(" {:<{}} ", cells[i], widths[i])
                  : fmt::format(" {:>{}} ", cells[i], widths[i]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::vector<std::string> cells_of(const WorkloadResult& result, const ArmResult& arm) {
  const double median = arm.median();
  const double reference = result.reference_seconds(), bound = result.bound_seconds();
  const bool signal = arm.arm.is_signal();
  const ArmResult* baseline = result.baseline();
  return {
      schedule_of(arm.arm),
      signal ? "-" : std::string(transfer::to_string(arm.arm.strategy)),
      transfers_of(arm.arm),
      fmt::format("{:.1f}", 1e3 * median),
      arm.measured() ? fmt::format("{:.1f}", 1e3 * (arm.maximum() - arm.minimum())) : "-",
      arm.measured() && arm.predicted_seconds > 0
          ? fmt::format("{:+.1f} %", 100 * arm.prediction_error())
          : "-",
      baseline == nullptr || baseline->arm.is_signal() != signal
          ? "-"
          : fmt::format("{:.2f}", baseline->median() / median),
      signal || reference <= 0 ? "-" : fmt::format("{:.3f}", reference / median),
      signal || bound <= 0 ? "-" : fmt::format("{:.3f}", bound / median),
      result.signal() == nullptr ? "-" : fmt::format("{:.3f}", result.signal()->median() / median),
      signal || !arm.measured() ? "-" : percent(arm.hidden_share),
      percent(arm.bubble()),
      format_bytes(std::llround(arm.peak_bytes * result.byte_scale)),
      arm.note.empty() ? paper_name(arm.arm) : arm.note};
}

std::string header_of(const WorkloadResult& result) {
  const bool measured = std::ranges::any_of(result.arms, &ArmResult::measured);
  std::string text = fmt::format("\n{}{}: {}\n", result.name,
                                 !measured         ? " (simulated only)"
                                 : result.emulated ? " (emulated devices)"
                                                   : "",
                                 result.description);
  text += fmt::format("  {} stages, {} microbatches", result.stages, result.microbatches);
  if (result.link_bits > 0)
    text += fmt::format(", links of {:.4g} Mbit/s each way", result.link_bits / 1e6);
  if (result.transfer_ratio)
    text += fmt::format(", transfers of {:.2f} (F+B)", *result.transfer_ratio);
  if (result.time_scale != 1 || result.byte_scale != 1)
    text += fmt::format("; 1 s stands for {:.4g} s, 1 byte for {:.4g}; memory is given unscaled",
                        result.time_scale, result.byte_scale);
  return text + "\n";
}

std::string dispatch_times(const WorkloadResult& result) {
  std::string text;
  for (const ArmResult& arm : result.arms)
    text += fmt::format("  {}: {:.1f} us an action\n", arm.arm.schedule,
                        1e6 * arm.median() / arm.actions);
  return text;
}

/// Compares the best arm with the baseline and the reference.
std::string against_baseline(const WorkloadResult& result, const ArmResult& best) {
  const ArmResult* baseline = result.baseline();
  if (baseline == nullptr || baseline == &best) return "";
  std::string text =
      fmt::format("  best of Weft ({}): {:.2f} times as fast as {}", schedule_of(best.arm),
                  baseline->median() / best.median(), to_string(baseline->arm));
  if (const double reference = result.reference_seconds(); reference > 0) {
    text += fmt::format(
        "; {:.3f} of the reference {} (Weft's signals {} + first and last transfers {}), {:.3f} "
        "of signals alone",
        reference / best.median(), format_seconds(reference),
        format_seconds(result.signal()->median()), format_seconds(result.unhidable_seconds),
        result.signal()->median() / best.median());
  }
  return text + "\n";
}

std::string against_bound(const WorkloadResult& result, const ArmResult& best) {
  const double bound = result.bound_seconds();
  if (bound <= 0) return "";
  return fmt::format(
      "  {:.3f} of the bound {} (the busiest device computes, or the busiest direction of a link "
      "is busy)\n",
      bound / best.median(), format_seconds(bound));
}

std::string throughput(const WorkloadResult& result, const ArmResult& best) {
  if (result.rows_per_step <= 0) return "";
  const double step = best.median() * result.time_scale;
  std::string text = fmt::format("  {:.4g} rows/s", result.rows_per_step / step);
  if (result.flops_per_step > 0)
    text += fmt::format(", {:.4g} TFLOP/s over all devices", result.flops_per_step / step / 1e12);
  if (result.time_scale != 1) text += ", as what is emulated";
  return text + "\n";
}

std::string against_peers(const WorkloadResult& result, const ArmResult& best) {
  std::string text;
  double fastest_peer = 0;
  for (const PeerResult& peer : result.peers)
    if (peer.whole && (fastest_peer == 0 || peer.seconds < fastest_peer))
      fastest_peer = peer.seconds;
  const ArmResult* frugal = result.best_within_memory();
  for (const PeerResult& peer : result.peers) {
    text += fmt::format("  {}: {}", peer.name, format_seconds(peer.seconds));
    if (peer.whole)
      text += fmt::format(", Weft {:.2f} times as fast", peer.seconds / best.median());
    if (peer.whole && frugal != nullptr)
      text += fmt::format(" ({:.2f} in {}'s memory)", peer.seconds / frugal->median(),
                          frugal->arm.memory_limit_of);
    text += peer.whole && peer.seconds == fastest_peer ? " as the best of them\n" : "\n";
  }
  return text;
}

std::string closing_of(const WorkloadResult& result) {
  if (result.dispatch) return dispatch_times(result);
  const ArmResult* best = result.best();
  if (best == nullptr) return "";
  return against_baseline(result, *best) + against_bound(result, *best) +
         throughput(result, *best) + against_peers(result, *best);
}

}  // namespace

double ArmResult::median() const { return measured() ? weft::median(seconds) : predicted_seconds; }
double ArmResult::minimum() const {
  return measured() ? *std::ranges::min_element(seconds) : predicted_seconds;
}
double ArmResult::maximum() const {
  return measured() ? *std::ranges::max_element(seconds) : predicted_seconds;
}

const ArmResult* WorkloadResult::baseline() const {
  for (const ArmResult& result : arms)
    if (result.arm == baseline_arm()) return &result;
  return arms.empty() ? nullptr : &arms.front();
}

const ArmResult* WorkloadResult::best() const {
  return fastest(arms, [](const Arm& arm) {
    return !arm.is_signal() && arm.strategy == transfer::ReshardAlgorithm::kWeft;
  });
}

const ArmResult* WorkloadResult::best_within_memory() const {
  return fastest(arms, [](const Arm& arm) { return !arm.memory_limit_of.empty(); });
}

const ArmResult* WorkloadResult::signal() const {
  return fastest(arms, [](const Arm& arm) { return arm.is_signal(); });
}

double WorkloadResult::reference_seconds() const {
  return signal() == nullptr ? 0 : signal()->median() + unhidable_seconds;
}

double WorkloadResult::bound_seconds() const {
  double least = 0;
  for (const ArmResult& result : arms) {
    if (result.arm.is_signal()) continue;
    const double seconds = std::max(result.busiest_seconds, result.link_seconds);
    if (least == 0 || seconds < least) least = seconds;
  }
  return least;
}

std::string to_table(const WorkloadResult& result) {
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "resharding", "transfers", "step", "spread", "simulator", "speed-", "ref./",
       "bound/", "signals/", "hidden", "bubble", "peak", ""},
      {"", "", "", "ms", "ms", "off by", "up", "step", "step", "step", "", "", "memory", ""}};
  for (const ArmResult& arm : result.arms) rows.push_back(cells_of(result, arm));
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& cells : rows) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = header_of(result);
  for (const auto& cells : rows) text += row(cells, widths);
  return text + closing_of(result);
}

std::string to_json(const std::vector<WorkloadResult>& results) {
  auto workloads = nlohmann::ordered_json::array();
  for (const WorkloadResult& result : results) {
    nlohmann::ordered_json entry = {{"name", result.name},
                                    {"description", result.description},
                                    {"emulated", result.emulated},
                                    {"link_bits_per_second", result.link_bits},
                                    {"stages", result.stages},
                                    {"microbatches", result.microbatches},
                                    {"rows_per_step", result.rows_per_step},
                                    {"flops_per_step", result.flops_per_step},
                                    {"time_scale", result.time_scale},
                                    {"byte_scale", result.byte_scale},
                                    {"unavoidable_seconds", result.unhidable_seconds},
                                    {"reference_seconds", result.reference_seconds()},
                                    {"bound_seconds", result.bound_seconds()}};
    if (result.vocabulary > 0) entry["vocabulary"] = result.vocabulary;
    if (result.transfer_ratio) entry["transfer_ratio"] = *result.transfer_ratio;
    entry["arms"] = nlohmann::ordered_json::array();
    for (const ArmResult& arm : result.arms) {
      entry["arms"].push_back(
          {{"schedule", arm.arm.schedule},
           {"vocabulary", to_string(arm.arm.vocabulary)},
           {"redistributed", arm.arm.redistributed},
           {"resharding", transfer::to_string(arm.arm.strategy)},
           {"transfers", transfers_of(arm.arm)},
           {"paper_name", paper_name(arm.arm)},
           {"step_seconds",
            {{"min", arm.minimum()}, {"median", arm.median()}, {"max", arm.maximum()}}},
           {"measured", arm.measured()},
           {"steps", arm.seconds},
           {"predicted_seconds", arm.predicted_seconds},
           {"busiest_device_compute_seconds", arm.busiest_seconds},
           {"busiest_link_seconds", arm.link_seconds},
           {"bubble", arm.bubble()},
           {"hidden_share", arm.hidden_share},
           {"peak_bytes", arm.peak_bytes},
           {"actions_of_busiest_device", arm.actions},
           {"speed_up", result.baseline()->median() / arm.median()},
           {"memory_of", arm.arm.memory_limit_of},
           {"note", arm.note}});
    }
    entry["peers"] = nlohmann::ordered_json::array();
    for (const PeerResult& peer : result.peers)
      entry["peers"].push_back(
          {{"name", peer.name}, {"step_seconds", peer.seconds}, {"whole_step", peer.whole}});
    workloads.push_back(std::move(entry));
  }
  return nlohmann::ordered_json{{"workloads", workloads}}.dump(2) + "\n";
}

}  // namespace weft::apps
