#include "mesh/plan/layout_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/name.h"
#include "core/config/nearest.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"

namespace weft::mesh {
namespace {

constexpr std::int64_t kMaxDevices = 1 << 16;

/// What a file beside the run file holds. `advice`: what to do where there is none.
std::string read_text_file(const ConfigNode& node, std::string_view what, std::string_view advice) {
  const std::string path = node.as_input_file().string();
  std::ifstream file(path);
  if (!file) node.fail(fmt::format("there is no {} file {}; {}", what, path, advice));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// `layout: 3d`, `layout: {name: 3d, weight: i, input: j, output: l}`, or `layout: FILE.strategy`.
void parse_mesh_layout(const ConfigNode& node, MeshConfig& mesh) {
  LayoutChoice choice;
  const bool is_map = node.kind() == ConfigNode::Kind::kMap;
  const ConfigNode name = is_map ? node.at("name") : node;
  choice.name = name.as<std::string>();
  if (choice.name.ends_with(".strategy")) {
    if (is_map)
      name.fail(fmt::format("{}: a strategy file says all by itself; say layout: {}", name.path(),
                            choice.name));
    mesh.own_strategy = read_strategy(
        read_text_file(name, "strategy", "weft strategy show RUNFILE prints one to start from"),
        name.as_path().string());
    return;
  }
  std::vector<std::string> names = layout_names();
  names.emplace_back("rules");
  if (std::ranges::find(names, choice.name) == names.end())
    name.fail(fmt::format("{}: there is no layout '{}', only {}, or a FILE.strategy{}", node.path(),
                          choice.name, fmt::join(names, ", "), did_you_mean(choice.name, names)));
  if (is_map) {
    node.read("shard_data", choice.shard_data);
    EnumNames<Gather> gathers;
    for (const Gather gather : {Gather::kStep, Gather::kMicrobatch, Gather::kUse})
      gathers.emplace_back(std::string(to_string(gather)), gather);
    Gather gather = Gather::kMicrobatch;
    if (node.read_enum("gather", gather, gathers)) choice.gather = gather;
    for (const Role role : all_roles()) {
      std::string axis;
      if (node.read(std::string(to_string(role)), axis)) choice.roles[role] = axis;
    }
    node.finish();
  }
  if (choice.name != "rules") mesh.layout = std::move(choice);
}

void parse_meshes(const ConfigNode& node, LayoutConfig& layout) {
  for (const auto& [name, mesh] : node.entries()) {
    MeshConfig config;
    config.name = name;
    if (!is_name(name)) mesh.fail(name_problem("meshes: a mesh's name", name));
    mesh.read("hosts", config.hosts);
    const ConfigNode shape = mesh.at("shape");
    std::int64_t devices = 1;
    for (const auto& [axis, size] : shape.entries()) {
      config.axes.push_back({axis, size.as<int>({.min = 1, .max = 4096})});
      if (!is_name(axis))
        size.fail(name_problem(fmt::format("{}: an axis' name", shape.path()), axis));
      if (devices *= config.axes.back().size; devices > kMaxDevices)
        shape.fail(fmt::format("{}: a mesh has at most {} devices; its axes multiply to more",
                               shape.path(), kMaxDevices));
    }
    if (config.axes.empty())
      shape.fail("a mesh needs at least one axis, for example {data: 1, tensor: 2}");
    if (const auto choice = mesh.find("layout")) parse_mesh_layout(*choice, config);
    mesh.finish();
    layout.meshes.push_back(std::move(config));
  }
  if (layout.meshes.empty())
    node.fail(
        "there must be at least one mesh, for example front: {hosts: [worker0], shape: {data: 1, "
        "tensor: 2}}");
}

void parse_sharding(const ConfigNode& node, LayoutConfig& layout) {
  std::vector<std::string> known;
  for (const MeshConfig& mesh : layout.meshes) {
    if (mesh.layout || mesh.own_strategy)
      node.fail(
          fmt::format("sharding: mesh '{}' has the layout '{}', which says how tensors are split; "
                      "remove one of the two",
                      mesh.name, mesh.layout ? mesh.layout->name : mesh.own_strategy->source));
    for (const MeshAxis& axis : mesh.axes) known.push_back(axis.name);
  }
  for (const auto& [label, value] : node.entries()) {
    std::vector<std::pair<std::string, ConfigNode>> names;
    if (value.kind() == ConfigNode::Kind::kList) {
      for (const ConfigNode& item : value.items()) names.emplace_back(item.as<std::string>(), item);
    } else {
      names.emplace_back(value.as<std::string>(), value);
    }
    std::vector<std::string> axes;
    for (const auto& [name, place] : names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        place.fail(fmt::format("no mesh has an axis '{}'{}", name, did_you_mean(name, known)));
      }
      axes.push_back(name);
    }
    layout.sharding.axes.emplace_back(label, std::move(axes));
  }
  node.finish();
}

void parse_stages(const ConfigNode& node, LayoutConfig& layout) {
  std::vector<std::string> names;
  for (const MeshConfig& mesh : layout.meshes) names.push_back(mesh.name);
  std::vector<bool> used(names.size(), false);
  for (const ConfigNode& stage : node.items()) {
    StageConfig config;
    stage.require("layers", config.layers, {.min = 1, .max = 100000});
    stage.read("recompute", config.recompute);
    const std::string name = stage.at("mesh").as<std::string>();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      stage.at("mesh").fail(
          fmt::format("there is no mesh '{}'{}", name, did_you_mean(name, names)));
    config.mesh = found - names.begin();
    used[config.mesh] = true;
    stage.finish();
    layout.stages.push_back(config);
  }
  if (layout.stages.empty())
    node.fail("there must be at least one stage, for example {mesh: front, layers: 2}");
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      node.fail(fmt::format("mesh '{}' has no stage; add one, or remove the mesh", names[i]));
  }
}

void parse_pipeline(const ConfigNode& node, LayoutConfig& layout) {
  if (node.has("schedule") && node.at("schedule").as<std::string>().ends_with(".csv")) {
    const ConfigNode file = node.at("schedule");
    layout.own_schedule =
        read_schedule(read_text_file(file, "schedule",
                                     "weft schedule show NAME --csv prints one to start from"),
                      file.as_path().string())
            .schedule;
  } else {
    EnumNames<std::string> schedules;
    for (const std::string& name : schedule_names()) schedules.emplace_back(name, name);
    schedules.emplace_back(LayoutConfig::kAuto, LayoutConfig::kAuto);
    node.read_enum("schedule", layout.schedule, schedules);
  }
  EnumNames<VocabularyMode> vocabularies;
  for (const VocabularyMode mode : vocabulary_modes())
    vocabularies.emplace_back(to_string(mode), mode);
  node.read_enum("vocabulary", layout.vocabulary, vocabularies);
  EnumNames<transfer::Strategy> strategies;
  for (const transfer::Strategy strategy : transfer::kStrategies)
    strategies.emplace_back(transfer::to_string(strategy), strategy);
  node.read_enum("resharding", layout.resharding, strategies);
  node.read("microbatches", layout.microbatches, {.min = 1, .max = 100000});
  const EnumNames<Lowering> lowerings{{"lanes", Lowering::kLanes}, {"safe", Lowering::kSafe}};
  node.read_enum("lowering", layout.lowering, lowerings);
  const EnumNames<GpuTransfers> paths{{"auto", GpuTransfers::kAuto}, {"host", GpuTransfers::kHost}};
  node.read_enum("gpu_transfers", layout.gpu_transfers, paths);
  node.read("credits", layout.credits, {.min = 1, .max = 64});
  if (std::uint64_t memory = 0; node.read_bytes("memory", memory, {.min = 1}))
    layout.memory = memory;
  parse_stages(node.at("stages"), layout);
  node.finish();
}

}  // namespace

int LayoutConfig::num_layers() const {
  int layers = 0;
  for (const StageConfig& stage : stages) layers += stage.layers;
  return layers;
}

std::vector<int> LayoutConfig::stage_of_layer() const {
  std::vector<int> result;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    result.insert(result.end(), stages[stage].layers, stage);
  }
  return result;
}

std::vector<int> LayoutConfig::mesh_of_stage() const {
  std::vector<int> result;
  for (const StageConfig& stage : stages) result.push_back(stage.mesh);
  return result;
}

LayoutConfig parse_layout(const ConfigNode& root) {
  LayoutConfig layout;
  // Each section says all that is wrong with it, whether or not another one is right.
  std::string problems;
  const auto section = [&](const char* key, bool required,
                           void (*parse)(const ConfigNode&, LayoutConfig&)) {
    try {
      if (required || root.has(key)) parse(root.at(key), layout);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      problems += (problems.empty() ? "" : "\n") + error.message();
    }
  };
  for (const char* key : {"meshes", "sharding", "pipeline"}) root.hand_on(key);
  section("meshes", true, parse_meshes);
  // The others name meshes and axes: of some that could not be read, nothing true can be said.
  if (!problems.empty()) throw Error(ErrorCode::kInvalidConfig, problems);
  section("sharding", false, parse_sharding);
  section("pipeline", true, parse_pipeline);
  if (!problems.empty()) throw Error(ErrorCode::kInvalidConfig, problems);
  return layout;
}

}  // namespace weft::mesh
