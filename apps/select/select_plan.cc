#include "apps/select/select_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "apps/run_files/progress_display.h"
#include "apps/select/memory_plan.h"
#include "apps/selection/graph_run.h"
#include "apps/selection/point_store.h"
#include "core/base/sha256.h"
#include "core/base/units.h"

namespace weft::apps {

std::optional<KnownPoints> known_points(const SelectConfig& config) {
  if (config.points || std::filesystem::exists(config.store() / "points.json")) {
    const PointStore store(config.store());
    return KnownPoints{store.layout().points, store.num_edges(), store.layout().shards, true};
  }
  if (config.input) {
    const std::optional<InputSize> size = size_of_input(*config.input);
    return size ? std::optional(forecast_points(config, *size)) : std::nullopt;
  }
  return KnownPoints{config.generated.points, config.generated.points * 146 / 10,
                     config.generated.shards};
}

KnownPoints forecast_points(const SelectConfig& config, const InputSize& size) {
  const bool are_given = config.neighbours || !config.input->neighbours.empty();
  return {size.rows, size.rows * config.num_neighbours * 16 / 10,
          static_cast<std::uint32_t>(std::min<std::uint64_t>(ShardLayout::kShards, size.rows)),
          false, are_given ? 0 : size.width};
}

SelectionPlan plan_of(const SelectConfig& config, const KnownPoints& known) {
  SelectionPlan plan = config.plan;
  plan.settings.points = config.store().string();
  plan.settings.count = config.budget.of(known.points);
  plan.rounds.partitions = config.partitions;
  const std::uint64_t memory = config.cluster.memory;
  if (known.width > 0 && !config.ignore_memory_forecast)
    check_graph_memory(known.points, known.width, known.shards, memory);
  fit_to_memory(plan, memory, known.points, known.edges, known.shards,
                config.ignore_memory_forecast);
  // Sets one round for one partition, as more rounds would choose the same points.
  if (plan.rounds.partitions == 1) plan.rounds.rounds = 1;
  return plan;
}

std::string points_text(const SelectConfig& config, const KnownPoints& known) {
  const std::uint64_t bytes = 8 * known.points + 6 * known.edges;
  return fmt::format("{} points, {:.1f} neighbours each, {} on disk{}",
                     with_thousands(static_cast<double>(known.points)),
                     static_cast<double>(known.edges) / static_cast<double>(known.points),
                     format_bytes(bytes),
                     known.exists   ? fmt::format(" in {}", config.store().string())
                     : config.input ? ", expected"
                                    : ", to be generated");
}

std::string objective_text(const SelectionPlan& plan) {
  return fmt::format("utility {} : similarity {}", plan.settings.utility, plan.settings.similarity);
}

std::string bounding_text(const SelectionSettings& settings) {
  if (!settings.use_bounding) return "off";
  if (settings.sample == 1000) return "exact";
  return fmt::format(
      "{:.1f} % of edges, uniform, {}", settings.sample / 10.0,
      settings.resample_edges ? "drawn anew in every step" : "the same in every step");
}

std::string rounds_text(const SelectionPlan& plan) {
  return fmt::format("{} of {} partition{}, {}, delta {:.3g}", plan.rounds.rounds,
                     plan.rounds.partitions, plan.rounds.partitions == 1 ? "" : "s",
                     plan.rounds.adaptive ? "fewer as points go" : "always all",
                     plan.rounds.delta / 1000.0);
}

nlohmann::ordered_json plan_json(const SelectConfig& config, const KnownPoints& known,
                                 const SelectionPlan& plan) {
  const SelectionMemory memory = forecast_memory(plan, known.points, known.edges, known.shards);
  nlohmann::ordered_json json = {{"name", config.name},
                                 {"points", known.points},
                                 {"directed_edges", known.edges},
                                 {"shards", known.shards},
                                 {"workers", config.num_workers()},
                                 {"count", plan.settings.count},
                                 {"weights", {plan.settings.utility, plan.settings.similarity}},
                                 {"bounding", bounding_text(plan.settings)},
                                 {"partitions", plan.rounds.partitions},
                                 {"rounds", nlohmann::ordered_json::array()}};
  RoundOptions options = plan.rounds;
  options.count = plan.settings.count;
  for (const PlannedRound& round : plan_rounds(known.points, options))
    json["rounds"].push_back(
        {{"points", round.points}, {"partitions", round.partitions}, {"stay", round.stay}});
  json["process_bytes"] = {{"base", memory.base},         {"exchange", memory.exchange},
                           {"spills", memory.spills},     {"partition", memory.partition},
                           {"shard", memory.shard},       {"at_most", memory.peak()},
                           {"cap", config.cluster.memory}};
  if (known.width > 0) {
    const bool exact = known.points < GraphPlan().exact_below;
    const std::uint64_t probes = GraphPlan().probes;
    json["graph"] = {
        {"cells", exact ? 1 : default_num_cells(known.points)},
        {"probes", exact ? 1 : probes},
        {"spilled_bytes", exact ? 0 : known.points * (1 + probes) * known.width * sizeof(float)},
        {"process_bytes",
         forecast_graph_memory(known.points, known.width, known.shards, config.cluster.memory)}};
  }
  json["passes_over_the_points"] = plan.rounds.rounds + 1;
  json["spilled_bytes_of_the_first_round"] =
      known.points * 14 + known.edges * 6 / std::max<std::uint32_t>(plan.rounds.partitions, 1);
  return json;
}

std::string plan_text(const SelectConfig& config, const KnownPoints& known,
                      const SelectionPlan& plan) {
  const nlohmann::ordered_json json = plan_json(config, known, plan);
  std::string text = fmt::format(
      "points      {}\nto choose   {}\nobjective   {}\nbounding    {}\nworkers     {}\nrounds      "
      "{}\n",
      points_text(config, known), with_thousands(static_cast<double>(plan.settings.count)),
      objective_text(plan), bounding_text(plan.settings), config.num_workers(), rounds_text(plan));
  for (const auto& round : json["rounds"])
    text += fmt::format("            {:>14} points in {:>3} partitions, {:>14} stay\n",
                        with_thousands(round["points"].get<double>()),
                        round["partitions"].get<std::uint64_t>(),
                        with_thousands(round["stay"].get<double>()));
  const auto& bytes = json["process_bytes"];
  const auto of = [&](const char* what) {
    return format_bytes(bytes[what].template get<std::uint64_t>());
  };
  text += fmt::format(
      "memory      {} a process at most: {} of its own, {} of exchanges, and {} of a partition or "
      "{} of files and {} of a shard{}\n",
      of("at_most"), of("base"), of("exchange"), of("partition"), of("spills"), of("shard"),
      config.cluster.memory == 0 ? ", without a cap"
      : bytes["at_most"] > bytes["cap"]
          ? fmt::format("; the cap is {}, which is too small, but the run starts anyway "
                        "(selection.forecast: warn)",
                        of("cap"))
          : "; the cap is " + of("cap"));
  if (json.contains("graph")) {
    const auto& graph = json["graph"];
    const auto cells = graph["cells"].get<std::uint64_t>();
    text += fmt::format(
        "graph       {}; {} a process at least\n",
        cells == 1
            ? "all points are compared with each other"
            : fmt::format("each point looks into {} of {} cells first, of which vectors of {} are "
                          "spilled, and into more until the recall is {}",
                          graph["probes"].get<std::uint64_t>(), cells,
                          format_bytes(graph["spilled_bytes"].get<std::uint64_t>()), config.recall),
        format_bytes(graph["process_bytes"].get<std::uint64_t>()));
  }
  text += fmt::format(
      "disk        the points are read {} times; {} are spilled in the first round, less in each "
      "later one\n",
      json["passes_over_the_points"].get<std::uint64_t>(),
      format_bytes(json["spilled_bytes_of_the_first_round"].get<std::uint64_t>()));
  return text;
}

std::string digest_of(const SelectionPlan& plan, const KnownPoints& known) {
  const SelectionSettings& s = plan.settings;
  const RoundOptions& r = plan.rounds;
  std::string text =
      fmt::format("{} {} {} | {} {}:{} {} {} {} {} | {} {} {} {}", s.points, known.points,
                  known.edges, s.count, s.utility, s.similarity, s.seed, s.sample, s.resample_edges,
                  s.use_bounding, r.partitions, r.rounds, r.adaptive, r.delta);
  RoundOptions options = r;
  options.count = s.count;
  for (const PlannedRound& round : plan_rounds(known.points, options))
    text += fmt::format(" {}", round.partitions);
  return sha256(std::as_bytes(std::span(text)));
}

}  // namespace weft::apps
