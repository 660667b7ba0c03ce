#include "apps/select/select_config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {
namespace {

enum class Bounding : std::uint8_t { kOff, kExact, kUniform };
enum class Sampling : std::uint8_t { kFixed, kFresh };

std::uint32_t thousandths(double share) {
  return static_cast<std::uint32_t>(std::lround(share * 1000));
}

/// "10%", "0.5%", 5000.
Budget parse_budget(const ConfigNode& node) {
  const auto text = node.as<std::string>();
  Budget budget;
  const auto* const end = text.data() + text.size();
  if (text.ends_with('%')) {
    double percent = 0;
    const auto read = std::from_chars(text.data(), end - 1, percent);
    if (read.ec == std::errc() && read.ptr == end - 1 && percent > 0 && percent <= 100) {
      budget.thousandths_of_percent = thousandths(percent);
      if (budget.thousandths_of_percent > 0) return budget;
    }
  } else {
    std::uint64_t points = 0;
    const auto read = std::from_chars(text.data(), end, points);
    if (read.ec == std::errc() && read.ptr == end && points > 0) {
      budget.points = points;
      return budget;
    }
  }
  node.fail(
      fmt::format("{}: how many points to choose is a share, such as 10%, of 0.001% at "
                  "least, or a number, such as 5000; not {}",
                  node.path(), text));
}

void read_input(const ConfigNode& node, SelectConfig& config) {
  if (const auto points = node.find("points")) config.points = points->as_path();
  std::uint64_t generated = 0;
  node.read("generated", generated, {.min = 2, .max = std::uint64_t{1} << 32});
  node.read("generated_seed", config.generated.seed);
  node.finish();
  if (config.points && generated > 0)
    node.at("generated").fail("input: points and generated exclude each other");
  if (!config.points && generated == 0)
    node.fail(
        "input: what to choose from is missing: points, a folder with points.json, or generated, "
        "a number of points to be made");
  config.generated.points = generated;
  config.generated.shards =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(ShardLayout::kShards, generated));
}

/// alpha, or the weights that stand for it.
Objective read_objective(const ConfigNode& node) {
  double alpha = 0.5;
  std::vector<std::int64_t> weights;
  node.read("alpha", alpha, {.min = 0.001, .max = 1.0});
  node.read("weights", weights);
  if (weights.empty()) return Objective::of_alpha(static_cast<int>(thousandths(alpha)));
  if (node.has("alpha")) node.at("weights").note("selection: alpha and weights exclude each other");
  if (weights.size() != 2 || weights[0] < 1 || weights[1] < 0 || weights[0] > 100'000 ||
      weights[1] > 100'000) {
    node.at("weights").note(
        "selection.weights: two whole numbers, of utility and similarity: [30, 1]");
    return {};
  }
  const std::int64_t common = std::gcd(weights[0], weights[1]);
  return {weights[0] / common, weights[1] / common};
}

void read_selection(const ConfigNode& node, SelectConfig& config) {
  SelectionSettings& settings = config.plan.settings;
  RoundOptions& rounds = config.plan.rounds;
  const Objective objective = read_objective(node);
  settings.utility = objective.utility;
  settings.similarity = objective.similarity;
  if (const auto budget = node.find("budget")) config.budget = parse_budget(*budget);
  Bounding bounding = Bounding::kOff;
  Sampling sampling = Sampling::kFixed;
  double sample = 0.3, delta = 0.75;
  node.read_enum(
      "bounding", bounding,
      EnumNames<Bounding>{
          {"off", Bounding::kOff}, {"exact", Bounding::kExact}, {"uniform", Bounding::kUniform}});
  node.read("sample", sample, {.min = 0.001, .max = 1.0});
  node.read_enum("sampling", sampling,
                 EnumNames<Sampling>{{"fixed", Sampling::kFixed}, {"fresh", Sampling::kFresh}});
  if (const auto partitions = node.find("partitions")) {
    std::string text;
    node.read("partitions", text);
    if (text != "auto") node.read("partitions", config.partitions, {.min = 1, .max = 1 << 16});
  }
  rounds.rounds = 8;
  node.read("rounds", rounds.rounds, {.min = 1, .max = 1000});
  node.read("adaptive", rounds.adaptive);
  node.read("delta", delta, {.min = 0.0, .max = 1.0});
  node.read("seed", settings.seed);
  node.finish();
  settings.bounded = bounding != Bounding::kOff;
  settings.sample = bounding == Bounding::kUniform ? thousandths(sample) : 1000;
  settings.fresh = bounding == Bounding::kUniform && sampling == Sampling::kFresh;
  rounds.delta = thousandths(delta);
  rounds.seed = settings.seed;
}

}  // namespace

std::uint64_t Budget::of(std::uint64_t of) const {
  const std::uint64_t count = points.value_or(static_cast<std::uint64_t>(
      static_cast<unsigned __int128>(of) * thousandths_of_percent / 100'000));
  if (count < 1 || count > of)
    throw_error(ErrorCode::kInvalidArgument,
                "selection.budget asks for {} of {} points; it is from 1 to all of them", count,
                of);
  return count;
}

std::uint32_t SelectConfig::num_workers() const {
  std::uint32_t workers = 0;
  for (const actors::HostSpec& host : cluster.hosts)
    if (!recovery.is_spare(host.name)) workers += host.devices;
  return workers;
}

std::filesystem::path SelectConfig::store() const {
  if (points) return *points;
  return scratch / fmt::format("generated-{}-{}", generated.points, generated.seed);
}

SelectConfig read_select(const ConfigDocument& document) {
  const ConfigNode root = document.root();
  SelectConfig config;
  std::string app;
  root.require("name", config.name);
  root.require("app", app);
  document.attempt([&] {
    if (const auto cluster = root.find("cluster")) config.cluster = actors::parse_cluster(*cluster);
  });
  document.attempt([&] {
    if (const auto logs = root.find("logs")) actors::parse_logs(*logs);
  });
  document.attempt([&] {
    if (const auto recovery = root.find("recovery"))
      config.recovery = actors::parse_recovery(*recovery, config.cluster.hosts);
  });
  document.attempt([&] { read_input(root.at("input"), config); });
  document.attempt([&] {
    if (const auto selection = root.find("selection")) read_selection(*selection, config);
    else config.plan.rounds.rounds = 8;
  });
  document.attempt([&] { config.scratch = root.at("scratch").as_path(); });
  root.finish();
  return config;
}

}  // namespace weft::apps
