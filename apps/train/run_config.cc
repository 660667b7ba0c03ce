#include "apps/train/run_config.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/config_document.h"

namespace weft::apps {
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
  return mesh::make_training_plan(config.layout, config.model.graphs, mesh::plan_places(config.layout, hosts));
}

}  // namespace weft::apps
