#include "mesh/plan/parallel_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/nearest.h"
#include "core/config/config_sections.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"

namespace weft::mesh {
namespace {

constexpr std::int64_t kMaxDevices = 1 << 16;
/// A program lists every instruction of a step: 100 kB per microbatch of a small model.
constexpr std::int64_t kMostMicrobatches = 1 << 14;

/// Returns the contents of a file beside the run file. `advice`: text for the error if it does not
/// exist.
std::string read_text_file(const ConfigNode& node, std::string_view what, std::string_view advice) {
  const std::string path = node.as_input_file().string();
  std::ifstream file(path);
  if (!file) node.fail(fmt::format("there is no {} file {}; {}", what, path, advice));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Reads `layout: 3d`, `layout: {name: 3d, weight: i, input: j, output: l}` or `layout:
/// FILE.strategy`.
void parse_mesh_layout(const ConfigNode& node, MeshConfig& mesh) {
  LayoutChoice choice;
  const bool is_map = node.kind() == ConfigNode::Kind::kMap;
  const ConfigNode name =
      is_map ? node.at("name", "1d, 1d-sequence, 2d, 2.5d, 3d, fsdp, or rules") : node;
  choice.name = name.as<std::string>();
  if (choice.name.ends_with(".strategy") || name.names_input_file()) {
    if (is_map)
      name.fail(fmt::format("{}: a strategy file takes no further keys; write layout: {}",
                            name.path(), choice.name));
    mesh.own_strategy = read_strategy(
        read_text_file(name, "strategy", "weft strategy show RUNFILE prints one to start from"),
        name.as_path().string());
    return;
  }
  std::vector<std::string> names = layout_names();
  names.emplace_back("rules");
  if (!node.is_outline() && std::ranges::find(names, choice.name) == names.end())
    name.fail(fmt::format("{}: there is no layout '{}', only {}, or a FILE.strategy{}", node.path(),
                          choice.name, fmt::join(names, ", "), did_you_mean(choice.name, names)));
  if (is_map) {
    node.read("shard_data", choice.shard_data,
              "Whether parameters are split over the data axis too, as in fsdp");
    EnumNames<GatherFrequency> gathers;
    for (const GatherFrequency gather :
         {GatherFrequency::kStep, GatherFrequency::kMicrobatch, GatherFrequency::kUse})
      gathers.emplace_back(std::string(to_string(gather)), gather);
    GatherFrequency gather = GatherFrequency::kMicrobatch;
    if (node.read_enum("gather", gather, gathers,
                       KeyDescription("How long gathered weights are kept")
                           .by_default("step, where memory "
                                       "allows it")))
      choice.gather = gather;
    for (const Role role : all_roles()) {
      std::string axis;
      if (node.read(std::string(to_string(role)), axis,
                    KeyDescription("Mesh axis with this role; by default the axis of that name")
                        .type("name of an axis")))
        choice.roles[role] = axis;
    }
    node.finish();
  }
  if (choice.name != "rules" && !node.is_outline()) mesh.layout = std::move(choice);
}

void parse_meshes(const ConfigNode& node, ParallelConfig& layout) {
  for (const auto& [name, mesh] : node.entries("NAME", "A mesh of that name")) {
    MeshConfig config;
    config.name = name;
    if (!is_name(name)) mesh.fail(invalid_name_message("meshes: a mesh's name", name));
    mesh.read("hosts", config.hosts,
              KeyDescription("Hosts of the mesh, in the order in which ranks fill them")
                  .by_default("all hosts but the spares"));
    const ConfigNode shape = mesh.at("shape", "Axes of the mesh; their product is its devices");
    if (shape.kind() != ConfigNode::Kind::kMap)
      shape.fail(fmt::format("{}: expected axes with their sizes, such as {{data: 1, tensor: 2}}",
                             shape.path()));
    std::int64_t devices = 1;
    for (const auto& [axis, size] :
         shape.entries("AXIS", KeyDescription("Size of the axis of that name").unit("devices"))) {
      config.axes.push_back({axis, size.as<int>({.min = 1, .max = 4096})});
      if (!is_name(axis))
        size.fail(invalid_name_message(fmt::format("{}: an axis' name", shape.path()), axis));
      if (devices *= config.axes.back().size; devices > kMaxDevices)
        shape.fail(fmt::format("{}: a mesh has at most {} devices; its axes multiply to more",
                               shape.path(), kMaxDevices));
    }
    if (config.axes.empty())
      shape.fail("a mesh needs at least one axis, for example {data: 1, tensor: 2}");
    if (const auto choice = mesh.find(
            "layout", KeyDescription("How tensors are split over the mesh, instead of sharding")
                          .alternative("the name of a layout, or FILE.strategy")
                          .by_default("rules")))
      parse_mesh_layout(*choice, config);
    mesh.finish();
    layout.meshes.push_back(std::move(config));
  }
  if (layout.meshes.empty())
    node.fail(
        "there must be at least one mesh, for example front: {hosts: [worker0], shape: {data: 1, "
        "tensor: 2}}");
}

void parse_sharding(const ConfigNode& node, ParallelConfig& layout) {
  // Rules apply only to meshes without a layout.
  std::vector<std::string> known;
  for (const MeshConfig& mesh : layout.meshes) {
    if (mesh.layout || mesh.own_strategy) continue;
    for (const MeshAxis& axis : mesh.axes) known.push_back(axis.name);
  }
  if (known.empty())
    node.fail(
        "sharding: every mesh has a layout, which says how tensors are split; remove sharding, or "
        "a layout");
  for (const auto& [label, value] : node.entries(
           "TENSOR_AXIS", KeyDescription("Mesh axes that split this axis of all tensors: batch, "
                                         "heads, mlp, vocab, ...")
                              .type("name of a mesh axis, or a list of names"))) {
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

void parse_stages(const ConfigNode& node, ParallelConfig& layout) {
  std::vector<std::string> names;
  for (const MeshConfig& mesh : layout.meshes) names.push_back(mesh.name);
  std::vector<bool> used(names.size(), false);
  for (const ConfigNode& stage : node.items()) {
    StageConfig config;
    stage.require("layers", config.layers,
                  KeyDescription("Layers of the stage; those of all stages add up to the model's")
                      .unit("layers"),
                  {.min = 1, .max = 100000});
    stage.read("recompute", config.recompute,
               "Whether activations are computed again instead of kept: less memory, more time");
    const std::string name =
        stage.at("mesh", "Mesh that runs the stage; a mesh may run several stages")
            .as<std::string>();
    if (stage.is_outline()) continue;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      stage.at("mesh").fail(
          fmt::format("there is no mesh '{}'{}", name, did_you_mean(name, names)));
    config.mesh = found - names.begin();
    used[config.mesh] = true;
    stage.finish();
    layout.stages.push_back(config);
  }
  if (node.is_outline()) return;
  if (layout.stages.empty())
    node.fail("there must be at least one stage, for example {mesh: front, layers: 2}");
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      node.fail(fmt::format("mesh '{}' has no stage; add one, or remove the mesh", names[i]));
  }
}

void parse_pipeline(const ConfigNode& node, ParallelConfig& layout) {
  if (node.has("schedule") && (node.at("schedule").as<std::string>().ends_with(".csv") ||
                               node.at("schedule").names_input_file())) {
    const ConfigNode file = node.at("schedule");
    layout.own_schedule =
        read_schedule(read_text_file(file, "schedule",
                                     "weft schedule show NAME --csv prints one to start from"),
                      file.as_path().string())
            .schedule;
  } else {
    EnumNames<std::string> schedules;
    for (const std::string& name : schedule_names()) schedules.emplace_back(name, name);
    schedules.emplace_back(ParallelConfig::kAuto, ParallelConfig::kAuto);
    node.read_enum("schedule", layout.schedule, schedules,
                   KeyDescription("Order of forward and backward passes; auto: measures the first "
                                  "steps, then searches a faster order")
                       .alternative("FILE.csv"));
  }
  EnumNames<VocabularyMode> vocabularies;
  for (const VocabularyMode mode : vocabulary_modes())
    vocabularies.emplace_back(to_string(mode), mode);
  node.read_enum(
      "vocabulary", layout.vocabulary, vocabularies,
      "Where embedding and output layer run; last: first and last stage; vocab-1, vocab-2: all "
      "devices, for 2 or 1 more microbatches of memory; interlaced: a baseline");
  EnumNames<transfer::ReshardAlgorithm> strategies;
  for (const transfer::ReshardAlgorithm strategy : transfer::kStrategies)
    strategies.emplace_back(transfer::to_string(strategy), strategy);
  node.read_enum("resharding", layout.resharding, strategies,
                 "How tensors travel between meshes: by Weft's planner; the others are baselines");
  node.read("microbatches", layout.microbatches,
            KeyDescription("Parts into which a step's batch is cut").unit("microbatches"),
            {.min = 1, .max = kMostMicrobatches});
  EnumNames<Duplex> duplexes;
  for (const Duplex duplex : duplex_choices()) duplexes.emplace_back(to_string(duplex), duplex);
  node.read_enum("duplex", layout.duplex, duplexes,
                 "Which actions communicate while others compute; halves: those of a microbatch's "
                 "two halves; cross: forwards and backwards; auto: what should be fastest");
  const EnumNames<Lowering> lowerings{{"lanes", Lowering::kLanes}, {"safe", Lowering::kSafe}};
  node.read_enum("lowering", layout.lowering, lowerings,
                 "lanes: transfers beside computation; safe: one after the other, for debugging");
  const EnumNames<GpuTransfers> paths{{"auto", GpuTransfers::kAuto}, {"host", GpuTransfers::kHost}};
  node.read_enum("gpu_transfers", layout.gpu_transfers, paths,
                 "auto: by NCCL where it reaches all ends; host: through the memory of hosts");
  node.read(
      "credits", layout.credits,
      KeyDescription("Receives that are posted ahead on each edge between stages").unit("receives"),
      {.min = 1, .max = 64});
  if (std::uint64_t memory = 0; node.read_bytes(
          "memory", memory,
          KeyDescription(
              "Memory limit of a device, for parameters, gradients, moments and activations")
              .by_default("any amount"),
          {.min = 1}))
    layout.memory = memory;
  if (layout.lowering == Lowering::kSafe && layout.duplex != Duplex::kOff &&
      layout.duplex != Duplex::kAuto && !node.is_outline())
    node.at("duplex").fail(
        fmt::format("pipeline.duplex: {} interleaves actions, but lowering: safe runs everything "
                    "one after the other; take duplex: off, or lowering: lanes",
                    to_string(layout.duplex)));
  parse_stages(node.at("stages", "Consecutive parts of the model, in order"), layout);
  node.finish();
}

}  // namespace

int ParallelConfig::num_layers() const {
  int layers = 0;
  for (const StageConfig& stage : stages) layers += stage.layers;
  return layers;
}

std::vector<int> ParallelConfig::stage_of_layer() const {
  std::vector<int> result;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    result.insert(result.end(), stages[stage].layers, stage);
  }
  return result;
}

std::vector<int> ParallelConfig::mesh_of_stage() const {
  std::vector<int> result;
  for (const StageConfig& stage : stages) result.push_back(stage.mesh);
  return result;
}

ParallelConfig parse_layout(const ConfigNode& root) {
  ParallelConfig layout;
  ConfigSections sections(root);
  for (const char* key : {"meshes", "sharding", "pipeline"}) root.exclude_key(key);
  sections.read(
      [&] { parse_meshes(root.at("meshes", "Device meshes: which hosts, which shape"), layout); });
  // The other sections name meshes and axes, so they cannot be checked if these are unknown.
  if (!sections.has_no_problems()) sections.finish();
  sections.read([&] {
    if (const auto sharding =
            root.find("sharding", "How tensors are split over meshes without a layout"))
      parse_sharding(*sharding, layout);
  });
  sections.read([&] {
    parse_pipeline(root.at("pipeline", "Stages, their order, and how tensors travel"), layout);
  });
  sections.finish();
  return layout;
}

}  // namespace weft::mesh
