#include "apps/train/run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/run_files/device_keys.h"
#include "apps/train/internal/choose_duplex.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "mesh/layouts/labels.h"

namespace weft::apps {
namespace {

/// Returns the device places that a plan assumes before devices exist: one GPU each, and NCCL on
/// every host.
std::vector<transfer::DeviceCapabilities> expected_places(const DeviceConfig& device,
                                                          const mesh::MeshPlaces& meshes) {
  std::vector<transfer::DeviceCapabilities> places;
  if (device.kind != DeviceKind::kCuda || device.share_gpu) return places;
  for (const auto& mesh : meshes) {
    for (std::size_t rank = 0; rank < mesh.size(); ++rank) {
      const std::uint32_t id = places.size();
      places.push_back(
          {transfer::DeviceId(id), true, fmt::format("GPU of device {}", id), "", "NCCL", ""});
    }
  }
  return places;
}

/// Rejects a rule for an axis that no tensor has; it would have no effect.
void check_sharding(const ConfigNode& root, const Graph& graph) {
  const auto sharding = root.find("sharding");
  if (!sharding) return;
  const std::vector<std::string> known = mesh::axis_names(graph);
  for (const auto& [axis, rule] : sharding->entries()) {
    if (std::ranges::find(known, axis) == known.end())
      sharding->record_key_problem(
          axis, fmt::format("sharding.{}: no tensor of the model has such an axis, only {}{}", axis,
                            fmt::join(known, ", "), did_you_mean(axis, known)));
  }
  sharding->finish();
}

/// Places meshes without hosts on all hosts but spares. Rejects a mesh that names a spare.
void keep_spares_free(const ConfigNode& root, RunConfig& config) {
  if (config.recovery.spares.empty()) return;
  for (mesh::MeshConfig& mesh : config.layout.meshes) {
    for (const std::string& host : mesh.hosts)
      if (config.recovery.is_spare(host))
        root.at("recovery")
            .at("spares")
            .fail(
                fmt::format("recovery.spares: host '{}' is used by mesh '{}' and cannot be a spare",
                            host, mesh.name));
    if (!mesh.hosts.empty()) continue;
    for (const actors::HostSpec& host : config.cluster.hosts)
      if (!config.recovery.is_spare(host.name)) mesh.hosts.push_back(host.name);
  }
}

/// Rejects meshes on hosts that the cluster does not have.
void check_hosts(const ConfigNode& root, const RunConfig& config) {
  std::vector<std::string> known;
  for (const actors::HostSpec& host : config.cluster.hosts) known.push_back(host.name);
  for (const mesh::MeshConfig& mesh : config.layout.meshes) {
    for (std::size_t i = 0; i < mesh.hosts.size(); ++i) {
      if (std::ranges::find(known, mesh.hosts[i]) != known.end()) continue;
      root.at("meshes").at(mesh.name).at("hosts").items()[i].fail(
          fmt::format("meshes.{}.hosts: cluster.hosts has no host '{}', only {}{}", mesh.name,
                      mesh.hosts[i], fmt::join(known, ", "), did_you_mean(mesh.hosts[i], known)));
    }
  }
}

/// Returns the parts of a step: "4 microbatches", "8 halves of microbatches".
std::string parts_text(const mesh::ParallelConfig& layout) {
  const int parts = layout.step_microbatches();
  if (layout.duplex == mesh::Duplex::kHalves)
    return fmt::format("{} halves of microbatches", parts);
  return fmt::format("{} microbatch{}", parts, parts == 1 ? "" : "es");
}

/// Rejects a microbatch whose rows cannot be split over the axes that split batches.
void check_rows(const ConfigNode& root, const RunConfig& config) {
  const std::int64_t rows = config.batch().rows_per_microbatch;
  for (const auto& [label, axes] : config.layout.sharding.axes) {
    if (label != "batch") continue;
    for (const mesh::MeshConfig& mesh : config.layout.meshes) {
      if (mesh.layout || mesh.own_strategy) continue;
      std::int64_t ways = 1;
      for (const MeshAxis& axis : mesh.axes)
        if (std::ranges::find(axes, axis.name) != axes.end()) ways *= axis.size;
      if (rows % ways == 0) continue;
      root.at("training")
          .at("batch")
          .fail(fmt::format(
              "training.batch: {} rows in {} leave {} row{} each, which mesh '{}' cannot split {} "
              "ways; take a multiple of {}",
              config.training.batch, parts_text(config.layout), rows, rows == 1 ? "" : "s",
              mesh.name, ways, ways * config.layout.step_microbatches()));
    }
  }
}

/// Reads the model. If it is too large, reads it again with one row per microbatch, to report
/// whether the model or the batch is at fault.
ModelDescription read_model(const ConfigNode& root, const BatchShape& batch,
                            const RunConfig& config, TrainingApp& app) {
  try {
    return app.describe_model(root, batch, config.seed);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    try {
      app.describe_model(root, {1, batch.microbatches}, config.seed);
    } catch (const Error&) {
      root.at("model").fail("model: " + error.message());
    }
    root.at("training")
        .at("batch")
        .fail(fmt::format("training.batch: {} in {} is too large for this model: {}",
                          config.training.batch, parts_text(config.layout), error.message()));
  }
}

/// Throws an error of the plan with the place in the run file of the key that it names.
[[noreturn]] void fail_at_its_key(const ConfigNode& root, const Error& error) {
  std::optional<ConfigNode> node = root;
  std::istringstream keys(error.where());
  for (std::string key; node && std::getline(keys, key, '.');) node = node->find(key);
  if (node && !error.where().empty()) node->fail(error.where() + ": " + error.message());
  if (error.code() == ErrorCode::kInvalidConfig) throw error;
  root.at("meshes").fail(error.message());
}

mesh::PlanConditions conditions_of(const RunConfig& config) {
  mesh::PlanConditions conditions{.deterministic = config.device.deterministic,
                                  .checkpoint_buffer = config.checkpoint.buffer};
  if (config.device.kind == DeviceKind::kEmulated)
    conditions.flops_per_second = config.device.flops_per_second;
  for (const actors::HostSpec& host : config.cluster.hosts)
    if (host.link) conditions.links[host.name] = *host.link;
  if (config.checkpoint.background && config.checkpoint.every > 0)
    conditions.checkpoint_copies = mesh::CopyMode::kIfMemoryAllows;
  if (config.recovery.restarts > 0 && config.recovery.copy_every > 0)
    conditions.snapshots = mesh::CopyMode::kIfMemoryAllows;
  return conditions;
}

/// Result of reading a run file. `sound`: it can be planned.
struct ReadRun {
  RunConfig config;
  bool sound = false;
};

}  // namespace

mesh::TrainingPlan plan_of(const RunConfig& config) {
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (const actors::HostSpec& host : config.cluster.hosts)
    hosts.emplace_back(host.name, host.devices);
  const mesh::MeshPlaces places = mesh::predict_places(config.layout, hosts);
  mesh::PlanConditions conditions = config.conditions;
  conditions.device_places = expected_places(config.device, places);
  return mesh::make_training_plan(config.layout, config.model.graphs, places, conditions);
}

namespace {

/// Reads every section. Problems stay in the document.
ReadRun read_run(const ConfigDocument& document, TrainingApp& app) {
  const ConfigNode root = document.root();
  RunConfig config;
  document.try_section([&] { config.name = actors::read_run_name(root); });
  document.try_section([&] { actors::app_of_run(root).as<std::string>(); });
  root.read("seed", config.seed,
            "Start of all random numbers: initial parameters, order of the data, samples");
  bool sound = document.try_section([&] {
    if (const auto cluster = actors::cluster_section(root))
      config.cluster = actors::parse_cluster(*cluster, keys_into(config.device));
    config.device.threads = config.cluster.threads_per_device;
  });
  document.try_section([&] {
    // only checks; `weft run` passes the section to every process
    if (const auto logs = actors::logs_section(root)) actors::parse_logs(*logs);
  });
  sound = document.try_section([&] { config.layout = mesh::parse_layout(root); }) && sound;
  const bool trains = document.try_section([&] {
    config.training = parse_training(root.at("training", "Steps, batch, optimizer, validation"));
  });
  sound = document.try_section([&] {
    if (const auto recovery = actors::recovery_section(root))
      config.recovery = actors::parse_recovery(*recovery, config.cluster.hosts);
    keep_spares_free(root, config);
  }) && sound;
  document.try_section([&] {
    if (const auto checkpoint = root.find("checkpoint", "When checkpoints are written, and how"))
      config.checkpoint = parse_checkpoint(*checkpoint);
  });
  config.conditions = conditions_of(config);
  sound = sound && trains;
  if (const int parts = config.layout.step_microbatches();
      sound && config.training.batch % parts != 0) {
    sound = document.try_section([&] {
      root.at("training")
          .at("batch")
          .fail(fmt::format("batch {} does not divide into {}; {} would", config.training.batch,
                            parts_text(config.layout),
                            (config.training.batch / parts + 1) * parts));
    });
  }
  sound = sound && document.try_section([&] { check_hosts(root, config); });
  sound = sound && document.try_section([&] { check_rows(root, config); });
  // Reads the app's sections even if the batch is unknown, to report their errors.
  const BatchShape batch = sound ? config.batch() : BatchShape{};
  sound =
      document.try_section([&] { config.model = read_model(root, batch, config, app); }) && sound;
  return {std::move(config), sound};
}

}  // namespace

void read_run_file(const ConfigDocument& document, TrainingApp& app) { read_run(document, app); }

PlannedRun plan_run(const ConfigDocument& document, TrainingApp& app) {
  const ConfigNode root = document.root();
  auto [config, read] = read_run(document, app);
  const bool sound = read && document.try_section([&, &graph = config.model.graphs.train.graph] {
    check_sharding(root, graph);
  });
  mesh::TrainingPlan plan;
  if (sound) {
    document.try_section([&, &config = config] {
      try {
        choose_duplex(root, config, app);
        plan = plan_of(config);
      } catch (const Error& error) {
        fail_at_its_key(root, error);
      }
    });
  }
  document.finish();
  return {std::move(config), std::move(plan)};
}

PlannedRun plan_run(const actors::AppRun& run, TrainingApp& app) {
  if (run.config.empty())
    throw_error(ErrorCode::kInvalidConfig,
                "{} needs a run file: start it with `weft run cluster.yaml`", app.name());
  return plan_run(run.document(), app);
}

}  // namespace weft::apps
