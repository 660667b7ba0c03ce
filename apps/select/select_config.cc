#include "apps/select/select_config.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "apps/data/text_data_config.h"
#include "apps/run_files/device_keys.h"
#include "apps/select_input/hashed_ngrams.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

enum class Bounding : std::uint8_t { kOff, kExact, kUniform };
enum class Sampling : std::uint8_t { kFixed, kFresh };
enum class Forecast : std::uint8_t { kRefuse, kWarn };

std::uint32_t thousandths(double share) {
  return static_cast<std::uint32_t>(std::lround(share * 1000));
}

/// Parses "10%", "0.5%" or 5000.
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

/// Returns an absolute path, or the name of a data set.
std::string path_or_name(const ConfigNode& node) {
  const auto text = node.as<std::string>();
  const bool is_name = text == "fashion-mnist" || text == "kjv" || text == "linux-doc";
  return is_name ? text : node.as_path().string();
}

/// Reads `input.path` and its options.
void read_files(const ConfigNode& node, SelectConfig& config) {
  SelectInput input;
  input.path = path_or_name(node.at("path"));
  node.read("vector", input.vector,
            KeyDescription("Column of the vectors, of Parquet files")
                .by_default("the only list of floats"));
  if (const auto utility =
          node.find("utility",
                    KeyDescription("How useful each row is: a column of Parquet files, or FILE.npy")
                        .type("name of a column, or path")
                        .by_default("all alike"))) {
    input.utility = utility->as<std::string>();
    if (is_npy(input.utility)) input.utility = utility->as_path().string();
  }
  node.read("words", input.words,
            KeyDescription("Length of the pieces that texts are cut in").unit("words"),
            {.min = 4, .max = 100'000});
  const bool sized =
      node.read("width", input.width,
                KeyDescription("Width of the vectors that are made of texts, a multiple of 64")
                    .unit("numbers"),
                {.min = 64, .max = 4096});
  if (sized && input.width % HashedNgrams::kSignsPerHash != 0)
    node.at("width").fail(fmt::format("input.width: a multiple of {}, not {}",
                                      HashedNgrams::kSignsPerHash, input.width));
  node.read("seed", input.seed, "Start of the random numbers that vectors are made with");
  input.coarse.seed = input.seed;
  if (const auto pieces = node.find(
          "pieces", "Rows are the pieces that a GPT trains on, which is read as this says")) {
    TextPieces texts;
    pieces->read("sequence", texts.sequence,
                 KeyDescription("model.sequence of that GPT").unit("tokens"),
                 {.min = 1, .max = 1 << 20});
    if (const auto data = pieces->find("data", "data: of that GPT"))
      texts.data = parse_text_data(*data);
    texts.data.text = input.path;
    input.pieces = texts;
  }
  node.read("id", input.id,
            KeyDescription("Column of the rows' ids, of Parquet files")
                .by_default("id, else row numbers"));
  const auto neighbours = node.find(
      "neighbors",
      KeyDescription("Similar rows, where they are known: a column of Parquet files, or two "
                     "files")
          .alternative("name of a column")
          .by_default("Weft finds them"));
  if (neighbours && neighbours->kind() == ConfigNode::Kind::kScalar) {
    input.neighbours = neighbours->as<std::string>();
  } else if (neighbours) {
    config.neighbours =
        neighbours->at("ids", "FILE.npy: the numbers of each row's neighbours").as_path();
    config.similarities = neighbours->at("similarities", "FILE.npy: their similarities").as_path();
  }
  config.input = std::move(input);
}

void read_graph(const ConfigNode& node, SelectConfig& config) {
  node.read("neighbors", config.num_neighbours,
            KeyDescription("Most similar rows that count as a row's neighbours").unit("rows"),
            {.min = 1, .max = 1000});
  node.read("recall", config.recall, "Share of the true neighbours that the search has to find",
            {.min = 0.0, .max = 1.0});
  node.read("similarity_floor", config.similarity_floor, "Less similar rows are no neighbours",
            {.min = 0.0, .max = 1.0});
  node.finish();
}

void read_input(const ConfigNode& node, SelectConfig& config) {
  const auto path =
      node.find("path", KeyDescription("What to choose from: vectors (.npy, .safetensors, "
                                       ".parquet), pictures or texts (a folder), or a data "
                                       "set")
                            .type("path, fashion-mnist, kjv or linux-doc"));
  if (path || node.is_outline()) read_files(node, config);
  if (const auto points = node.find(
          "points", KeyDescription("Instead of path: a folder with points.json").type("path")))
    config.points = points->as_path();
  std::uint64_t generated = 0;
  node.read("generated", generated,
            KeyDescription("Instead of path: so many points made up, for tests and benchmarks")
                .unit("points")
                .by_default("none"),
            {.min = 2, .max = std::uint64_t{1} << 32});
  node.read("generated_seed", config.generated.seed, "Start of the random numbers that make them");
  node.finish();
  const int given = (config.points ? 1 : 0) + (generated > 0 ? 1 : 0) + (config.input ? 1 : 0);
  if (given != 1)
    node.fail(fmt::format(
        "input: {}: path (a file of vectors, a folder of pictures or texts, or fashion-mnist, kjv, "
        "linux-doc), points (a folder with points.json), or generated (a number of points)",
        given == 0 ? "what to choose from is missing" : "these exclude each other"));
  config.generated.points = generated;
  config.generated.shards =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(ShardLayout::kShards, generated));
}

/// Reads alpha, or the weights that replace it.
Objective read_objective(const ConfigNode& node) {
  double alpha = 0.5;
  std::vector<std::int64_t> weights;
  node.read("alpha", alpha, "Weight of usefulness against diversity; 1 ignores diversity",
            {.min = 0.001, .max = 1.0});
  node.read("weights", weights,
            "Instead of alpha: weights of utility and similarity, such as [30, 1]");
  if (weights.empty()) return Objective::of_alpha(static_cast<int>(thousandths(alpha)));
  if (node.has("alpha"))
    node.at("weights").record_problem("selection: alpha and weights exclude each other");
  if (weights.size() != 2 || weights[0] < 1 || weights[1] < 0 || weights[0] > 100'000 ||
      weights[1] > 100'000) {
    node.at("weights").record_problem(
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
  if (const auto budget =
          node.find("budget", KeyDescription("How many rows to choose")
                                  .type("share, such as 10%, or whole number, such as 5000")
                                  .by_default("10%")))
    config.budget = parse_budget(*budget);
  Bounding bounding = Bounding::kOff;
  Sampling sampling = Sampling::kFixed;
  double sample = 0.3, delta = 0.75;
  node.read_enum(
      "bounding", bounding,
      EnumNames<Bounding>{
          {"off", Bounding::kOff}, {"exact", Bounding::kExact}, {"uniform", Bounding::kUniform}},
      "Accept or reject rows by bounds before the rounds: exact bounds, or bounds from sampled "
      "edges (uniform)");
  node.read("sample", sample, "Share of a row's neighbours in the sample of bounding: uniform",
            {.min = 0.001, .max = 1.0});
  node.read_enum("sampling", sampling,
                 EnumNames<Sampling>{{"fixed", Sampling::kFixed}, {"fresh", Sampling::kFresh}},
                 "Whether each step of bounding draws another sample");
  if (const auto partitions = node.find(
          "partitions",
          KeyDescription("Parts in which each round chooses; auto: as few as memory allows")
              .type("whole number, or auto")
              .by_default("auto"))) {
    std::string text;
    node.read("partitions", text);
    if (text != "auto") node.read("partitions", config.partitions, {.min = 1, .max = 1 << 16});
  }
  Forecast forecast = Forecast::kRefuse;
  node.read_enum("forecast", forecast,
                 EnumNames<Forecast>{{"refuse", Forecast::kRefuse}, {"warn", Forecast::kWarn}},
                 "What happens if cluster.memory seems too small: nothing starts, or it is tried");
  config.ignore_memory_forecast = forecast == Forecast::kWarn;
  if (config.ignore_memory_forecast && config.partitions == 0)
    node.at("forecast")
        .record_problem(
            "selection.forecast: warn needs a number of partitions: auto makes as many as fit the "
            "cap");
  rounds.rounds = 8;
  node.read("rounds", rounds.rounds,
            KeyDescription("Rounds in which rows are chosen, each among those of the one before")
                .unit("rounds"),
            {.min = 1, .max = 1000});
  node.read("adaptive", rounds.adaptive,
            "Whether later rounds have fewer partitions, as fewer rows are left");
  node.read("delta", delta,
            "How slowly the rounds shrink: 1 shrinks evenly to the budget, 0 reaches it in the "
            "first round; less is faster",
            {.min = 0.0, .max = 1.0});
  node.read("seed", settings.seed, "Start of the random numbers that make partitions and samples");
  node.finish();
  settings.use_bounding = bounding != Bounding::kOff;
  settings.sample = bounding == Bounding::kUniform ? thousandths(sample) : 1000;
  settings.resample_edges = bounding == Bounding::kUniform && sampling == Sampling::kFresh;
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

std::filesystem::path SelectConfig::prepared() const {
  // Named by a hash of the input's options, as several selections may share a scratch folder.
  std::string provenance =
      fmt::format("{} {} {} {} {} {} {} {} {}", input->path, input->vector, input->utility,
                  input->id, input->neighbours, input->words, input->width,
                  input->pieces ? input->pieces->sequence : 0, input->seed);
  if (input->pieces) {
    const TextDataConfig& data = input->pieces->data;
    provenance += fmt::format(" {} {} {}", static_cast<int>(data.tokenizer), data.vocabulary,
                              data.validation_fraction);
  }
  return scratch / ("input-" + sha256(std::as_bytes(std::span(provenance))).substr(0, 12));
}

std::filesystem::path SelectConfig::store() const {
  if (points) return *points;
  if (input) {
    const auto path = [](const auto& file) { return file ? file->string() : std::string(); };
    const std::string options = fmt::format("{} {} {} {}", path(neighbours), path(similarities),
                                            recall, plan.settings.seed);
    return prepared() / fmt::format("points-{}-{}-{}", num_neighbours,
                                    std::lround(similarity_floor * 1000),
                                    sha256(std::as_bytes(std::span(options))).substr(0, 8));
  }
  return scratch / fmt::format("generated-{}-{}", generated.points, generated.seed);
}

SelectConfig read_select(const ConfigDocument& document) {
  const ConfigNode root = document.root();
  SelectConfig config;
  document.try_section([&] { config.name = actors::read_run_name(root); });
  document.try_section([&] { actors::app_of_run(root).as<std::string>(); });
  document.try_section([&] {
    DeviceConfig device;  // checks only: this app computes on the CPU
    if (const auto cluster = actors::cluster_section(root))
      config.cluster = actors::parse_cluster(*cluster, keys_into(device));
  });
  document.try_section([&] {
    if (const auto logs = actors::logs_section(root)) actors::parse_logs(*logs);
  });
  document.try_section([&] {
    if (const auto recovery = actors::recovery_section(root))
      config.recovery = actors::parse_recovery(*recovery, config.cluster.hosts);
  });
  document.try_section([&] { read_input(root.at("input", "What to choose from"), config); });
  document.try_section([&] {
    if (const auto graph = root.find("graph", "Which rows count as similar"))
      read_graph(*graph, config);
  });
  document.try_section([&] {
    if (const auto selection = root.find("selection", "How many to choose, and how"))
      read_selection(*selection, config);
    else config.plan.rounds.rounds = 8;
  });
  document.try_section([&] {
    if (const auto scratch = root.find(
            "scratch", KeyDescription("Folder for what is made on the way; it can be large")
                           .type("path")
                           .by_default("scratch")))
      config.scratch = scratch->as_path();
    else config.scratch = std::filesystem::absolute("scratch");
  });
  if (config.num_workers() == 0 && !root.is_outline())
    root.at("cluster").record_problem(
        "cluster.hosts: the hosts that are no spares have no devices; a selection needs at least "
        "one, such as {name: worker0, devices: 1}");
  root.finish();
  return config;
}

}  // namespace weft::apps
