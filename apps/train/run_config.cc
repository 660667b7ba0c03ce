#include "apps/train/run_config.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/config_document.h"

namespace weft::apps {
namespace {

/// What a plan counts on before there are devices: a GPU each, and their library on every host.
std::vector<transfer::DevicePlace> expected_places(const actors::ClusterConfig& cluster, const mesh::MeshPlaces& meshes) {
  std::vector<transfer::DevicePlace> places;
  if (cluster.device != actors::DeviceChoice::kCuda || cluster.share_gpu) return places;
  for (const auto& mesh : meshes) {
    for (std::size_t rank = 0; rank < mesh.size(); ++rank) {
      const auto id = static_cast<std::uint32_t>(places.size());
      places.push_back({transfer::DeviceId(id), true, fmt::format("GPU of device {}", id), "", "NCCL", ""});
    }
  }
  return places;
}

}  // namespace

RunConfig read_run_config(const std::filesystem::path& file, std::span<const std::string> overrides, TrainingApp& app) {
  const ConfigDocument document = ConfigDocument::load(file, overrides);
  const ConfigNode root = document.root();
  RunConfig config;
  std::string app_name;
  root.require("name", config.name);
  root.require("app", app_name);
  root.read("seed", config.seed);
  bool sound = document.attempt([&] {
    if (const auto cluster = root.find("cluster")) config.cluster = actors::parse_cluster(*cluster);
  });
  document.attempt([&] {
    if (const auto logs = root.find("logs")) actors::parse_logs(*logs);  // for `weft run`, which passes it on to every process
  });
  sound = document.attempt([&] { config.layout = mesh::parse_layout(root); }) && sound;
  const bool trains = document.attempt([&] { config.training = parse_training(root.at("training")); });
  for (const actors::HostSpec& host : config.cluster.hosts)
    if (host.link) config.layout.links[host.name] = *host.link;
  config.layout.deterministic = config.cluster.deterministic;
  document.attempt([&] {
    if (const auto checkpoint = root.find("checkpoint")) config.checkpoint = parse_checkpoint(*checkpoint);
  });
  sound = sound && trains;
  if (sound && config.training.batch % config.layout.microbatches != 0) {
    sound = document.attempt([&] {
      root.at("training")
          .at("batch")
          .fail(fmt::format("batch {} does not divide into {} microbatches", config.training.batch, config.layout.microbatches));
    });
  }
  // Where the batch is not known, the app's sections are still read, for their own errors.
  const BatchShape batch = sound ? config.batch() : BatchShape{};
  sound = document.attempt([&] { config.model = app.read(root, batch, config.seed); }) && sound;
  if (sound) {
    document.attempt([&] {
      try {
        plan_of(config);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInvalidConfig) throw;
        root.at("meshes").fail(error.message());
      }
    });
  }
  document.finish();
  return config;
}

mesh::TrainingPlan plan_of(const RunConfig& config) {
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (const actors::HostSpec& host : config.cluster.hosts) hosts.emplace_back(host.name, host.devices);
  const mesh::MeshPlaces places = mesh::plan_places(config.layout, hosts);
  mesh::LayoutConfig layout = config.layout;
  layout.device_places = expected_places(config.cluster, places);
  return mesh::make_training_plan(layout, config.model.graphs, places);
}

}  // namespace weft::apps
