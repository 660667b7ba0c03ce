#include "apps/train/compare_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/units.h"
#include "core/ops/op_definition.h"
#include "mesh/layouts/linear_traffic.h"
#include "mesh/plan/plan_memory.h"

namespace weft::apps {
namespace {

/// Returns mesh axes for a layout on that many devices, as equal in size as possible. Returns
/// nullopt if the layout cannot use that number.
std::optional<std::vector<MeshAxis>> balanced_axes(const std::string& layout, int devices) {
  if (layout == "1d" || layout == "1d-sequence") return std::vector<MeshAxis>{{"tensor", devices}};
  if (layout == "fsdp") return std::vector<MeshAxis>{{"data", devices}};
  std::optional<std::vector<MeshAxis>> best;
  int smallest_sum = 0;
  const auto offer = [&](std::vector<MeshAxis> axes, int sum) {
    if (best && sum >= smallest_sum) return;
    best = std::move(axes);
    smallest_sum = sum;
  };
  for (int a = 1; a <= devices; ++a) {
    if (devices % a != 0) continue;
    if (layout == "2d") offer({{"row", a}, {"column", devices / a}}, a + devices / a);
    for (int b = 1; b <= devices / a; ++b) {
      if (devices / a % b != 0) continue;
      const int c = devices / a / b;
      if (layout == "3d") offer({{"weight", a}, {"input", b}, {"output", c}}, a + b + c);
      if (layout == "2.5d" && b == c && a > 1 && b > 1)
        offer({{"depth", a}, {"row", b}, {"column", c}}, a + b + c);
    }
  }
  return best;
}

bool is_usable_on(const mesh::LayoutChoice& choice, const mesh::MeshConfig& mesh) {
  std::int64_t size = 1;
  for (const MeshAxis& axis : mesh.axes) size *= axis.size;
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t i = 0; i < size; ++i) devices.emplace_back(i);
  try {
    mesh::feature_splits(choice, mesh::DeviceMesh(mesh.name, mesh.axes, devices));
    return true;
  } catch (const Error&) {
    return false;
  }
}

mesh::ParallelConfig with_layout(const mesh::ParallelConfig& layout, const std::string& name) {
  mesh::ParallelConfig result = layout;
  result.sharding = {};
  for (mesh::MeshConfig& mesh : result.meshes) {
    mesh::LayoutChoice choice{name, {}};
    if (mesh.layout) choice.gather = mesh.layout->gather;
    mesh.own_strategy.reset();
    if (!is_usable_on(choice, mesh)) {
      int devices = 1;
      for (const MeshAxis& axis : mesh.axes) devices *= static_cast<int>(axis.size);
      const auto axes = balanced_axes(name, devices);
      if (!axes)
        throw_error(ErrorCode::kInvalidConfig, "mesh {} has {} devices, which {} cannot use",
                    mesh.name, devices, name);
      mesh.axes = *axes;
    }
    mesh.layout = std::move(choice);
  }
  return result;
}

using AlongAxes = std::map<std::string, LayoutCosts::AxisBytes>;

/// Adds the closed forms of all linear layers to the bytes that a device of each mesh receives
/// along each axis.
void add_laws(IndexedVector<mesh::MeshId, AlongAxes>& figures, const mesh::TrainingPlan& plan) {
  const mesh::Partition& partition = plan.partition;
  std::set<ValueId> expanding;
  for (const Parameter& parameter : partition.graph.parameters())
    if (parameter.axes.front() == "embed") expanding.insert(parameter.value);
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = partition.graph.node(id);
    const bool transposed = node.op.kind == OpKind::kLinearInputGrad;  // output layer of tied
                                                                       // embeddings
    if (node.pass != Pass::kForward || (node.op.kind != OpKind::kLinear && !transposed)) continue;
    const mesh::MeshId mesh = partition.mesh_of_stage[partition.stage_of_node[id]];
    const TensorType &x = partition.graph.value(node.inputs[0]).type,
                     &w = partition.graph.value(node.inputs[1]).type;
    mesh::LinearShape shape;
    shape.k = static_cast<double>(transposed ? w.shape.back() : w.shape.front());
    shape.n = static_cast<double>(w.elements()) / shape.k;
    // The graph has the rows of a half, if microbatches are cut. Both halves share parameters.
    shape.m = static_cast<double>(x.elements()) / shape.k * plan.layout.step_microbatches() /
              plan.layout.microbatches;
    shape.is_expand = transposed || expanding.contains(node.inputs[1]);
    const auto law =
        mesh::predict_linear_traffic(*plan.layout.meshes[mesh.value()].layout,
                                     partition.meshes[mesh], shape, plan.layout.microbatches);
    for (const mesh::TensorTraffic& of : law)
      figures[mesh][of.axes].linear_bytes += static_cast<double>(size_of(x.dtype)) * of.elements +
                                             sizeof(float) * of.gradient_elements;
  }
}

/// Adds the bytes that a device of each mesh receives along each axis.
void add_moves(IndexedVector<mesh::MeshId, AlongAxes>& figures, const mesh::TrainingPlan& plan) {
  const mesh::Partition& partition = plan.partition;
  for (const mesh::MeshId id : partition.meshes.ids()) {
    const mesh::MeshPartition& part = partition.per_mesh[id];
    const mesh::DeviceMesh& mesh = partition.meshes[id];
    const auto add = [&](const Shape& shape, DType dtype, const mesh::Move& move, int times) {
      if (move.kind == mesh::MoveKind::kSlice) return;
      std::vector<int> axes = move.axes;
      std::ranges::sort(axes);
      figures[id][axes_text(axes, mesh)].received +=
          static_cast<double>(times) * static_cast<double>(size_of(dtype)) *
          static_cast<double>(received_elements(shape, move, mesh));
    };
    for (const mesh::Step& step : part.steps) {
      const auto* move = std::get_if<mesh::MoveStep>(&step.what);
      if (move == nullptr) continue;
      const TensorType& type = partition.graph.value(part.locals[move->input].value).type;
      const bool gathers = part.locals[move->input].origin == mesh::LocalOrigin::kParameter;
      const int times = gathers ? plan.layout.microbatches : plan.layout.step_microbatches();
      add(type.shape, type.dtype, move->move, part.locals[move->output].once_per_step ? 1 : times);
    }
    // Gradients move in buckets: once per step, or in every microbatch if devices keep only parts.
    for (const mesh::LocalParameter& parameter : part.parameters) {
      const mesh::LocalValue& home = part.locals[parameter.value];
      const Shape& shape = partition.graph.value(home.value).type.shape;
      for (const mesh::GradientTerm& term : parameter.terms)
        for (const mesh::Move& move :
             plan_moves(shape, part.locals[term.gradient].spec, home.spec, mesh))
          add(shape, DType::kF32, move,
              part.gather == mesh::GatherFrequency::kUse &&
                      move.kind == mesh::MoveKind::kReduceScatter
                  ? plan.layout.microbatches
                  : 1);
    }
  }
}

/// Returns the figures of the mesh whose devices receive most.
AlongAxes busiest_mesh(const mesh::TrainingPlan& plan) {
  IndexedVector<mesh::MeshId, AlongAxes> by_mesh(plan.partition.meshes.size());
  add_moves(by_mesh, plan);
  add_laws(by_mesh, plan);
  const auto received = [](const AlongAxes& axes) {
    double sum = 0;
    for (const auto& [name, along] : axes) sum += along.received;
    return sum;
  };
  return *std::ranges::max_element(by_mesh, {}, received);
}

/// Returns the peak bytes of buffers that transfers fill from parameters. A buffer counts until its
/// last use.
std::uint64_t gathered_bytes(const mesh::Program& program) {
  std::set<std::int32_t> parameters;
  for (const mesh::ProgramParameter& parameter : program.parameters)
    for (const std::int64_t buffer :
         {std::int64_t{parameter.value}, std::int64_t{parameter.working_copy}})
      if (buffer >= 0) parameters.insert(program.buffers[buffer].persistent);
  struct Life {
    std::size_t begin = 0, end = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Life> lives;
  std::map<std::uint32_t, std::size_t> life_of;  // key: buffer
  const auto is_gathered = [&](std::int32_t source) {
    return life_of.contains(source) || parameters.contains(program.buffers[source].persistent);
  };
  for (std::size_t at = 0; at < program.instructions.size(); ++at) {
    const mesh::Instruction& instruction = program.instructions[at];
    if (const auto* run = std::get_if<mesh::Run>(&instruction)) {
      for (const std::uint32_t input : run->inputs)
        if (const auto found = life_of.find(input); found != life_of.end())
          lives[found->second].end = at;
    } else if (const auto* start = std::get_if<mesh::Start>(&instruction)) {
      const std::int32_t destination = start->destination;
      if (start->source < 0 || destination < 0 || !is_gathered(start->source)) continue;
      if (program.buffers[destination].persistent >= 0) continue;
      life_of[destination] = lives.size();
      lives.push_back({at, at, program.buffers[destination].type.bytes()});
    }
  }
  std::map<std::size_t, std::int64_t> changes;  // key: instruction
  for (const Life& life : lives) {
    changes[life.begin] += static_cast<std::int64_t>(life.bytes);
    changes[life.end + 1] -= static_cast<std::int64_t>(life.bytes);
  }
  std::int64_t now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return static_cast<std::uint64_t>(most);
}

LayoutCosts figures_of(const RunConfig& config, const std::string& name) {
  LayoutCosts figures;
  figures.layout = name;
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (const actors::HostSpec& host : config.cluster.hosts)
    hosts.emplace_back(host.name, host.devices);
  mesh::TrainingPlan plan;
  try {
    const mesh::ParallelConfig layout = with_layout(config.layout, name);
    plan = mesh::make_training_plan(layout, config.model.graphs, predict_places(layout, hosts),
                                    config.conditions);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    figures.unusable_because = error.message();
    return figures;
  }
  for (const mesh::DeviceMesh& mesh : plan.partition.meshes)
    figures.meshes += (figures.meshes.empty() ? "" : " ") + to_string(mesh);
  for (std::size_t d = 0; d < plan.train.programs.size(); ++d) {
    const mesh::Program& program = plan.train.programs[d];
    double received = 0;
    std::int64_t transfers = 0;
    for (const mesh::Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<mesh::Start>(&instruction);
      if (start == nullptr) continue;
      const mesh::Transfer& transfer = program.transfers[start->transfer];
      if (transfer.kind == mesh::TransferPurpose::kNorm) continue;
      received += static_cast<double>(transfer.bytes_received());
      ++transfers;
    }
    const transfer::DeviceId device(d);
    const std::uint64_t activations = arena_bytes(plan, device);
    figures.received = std::max(figures.received, received);
    figures.transfers = std::max(figures.transfers, transfers);
    figures.activations = std::max(figures.activations, activations);
    figures.gathered = std::max(figures.gathered, gathered_bytes(program));
    figures.state = std::max(figures.state, device_memory(plan, device) - activations);
  }
  figures.by_axes = busiest_mesh(plan);
  return figures;
}

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

}  // namespace

std::vector<LayoutCosts> compare_layouts(const RunConfig& config,
                                         const std::vector<std::string>& layouts) {
  const std::vector<std::string> known = mesh::layout_names();
  for (const std::string& name : layouts)
    if (std::ranges::find(known, name) == known.end())
      throw_error(ErrorCode::kInvalidArgument, "--layouts {}: there are {}{}", name,
                  fmt::join(known, ", "), did_you_mean(name, known));
  std::vector<LayoutCosts> figures;
  for (const std::string& name : layouts) figures.push_back(figures_of(config, name));
  return figures;
}

double LayoutCosts::linear_bytes() const {
  double sum = 0;
  for (const auto& [axes, along] : by_axes) sum += along.linear_bytes;
  return sum;
}

std::string to_table(const std::vector<LayoutCosts>& figures) {
  std::string text =
      fmt::format("{:<12} {:>10} {:>13} {:>9} {:>10} {:>11} {:>10}\n", "layout", "receives",
                  "linear layers", "transfers", "state", "activations", "gathered");
  std::string axes = fmt::format("\n{:<12} {:<14} {:>10} {:>13}\n", "layout", "along", "receives",
                                 "linear layers");
  std::string unusable;
  for (const LayoutCosts& one : figures) {
    if (!one.unusable_because.empty()) {
      unusable += fmt::format("\n{}: {}", one.layout, one.unusable_because);
      continue;
    }
    text += fmt::format("{:<12} {:>10} {:>13} {:>9} {:>10} {:>11} {:>10}\n", one.layout,
                        bytes_text(one.received), bytes_text(one.linear_bytes()), one.transfers,
                        format_bytes(one.state), format_bytes(one.activations),
                        format_bytes(one.gathered));
    for (const auto& [name, along] : one.by_axes)
      axes +=
          fmt::format("{:<12} {:<14} {:>10} {:>13}\n", one.layout, name, bytes_text(along.received),
                      along.linear_bytes > 0 ? bytes_text(along.linear_bytes) : "-");
  }
  return text + axes + unusable + (unusable.empty() ? "" : "\n") +
         "\nAll figures are per device and step, of the device that has most.\n"
         "receives: from devices of its mesh; linear layers: the share of it that theory says;\n"
         "state: parameters, gradients, moments; gathered: the part of the activations that is\n"
         "weights of other devices, kept for a time\n";
}

std::string to_json(const std::vector<LayoutCosts>& figures) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const LayoutCosts& one : figures) {
    if (!one.unusable_because.empty()) {
      document.push_back({{"layout", one.layout}, {"refusal", one.unusable_because}});
      continue;
    }
    nlohmann::ordered_json by_axes = nlohmann::ordered_json::object();
    for (const auto& [name, along] : one.by_axes)
      by_axes[name] = {{"received_bytes", along.received},
                       {"law_of_linears_bytes", along.linear_bytes}};
    document.push_back({{"layout", one.layout},
                        {"meshes", one.meshes},
                        {"received_bytes", one.received},
                        {"law_of_linears_bytes", one.linear_bytes()},
                        {"by_axes", by_axes},
                        {"transfers", one.transfers},
                        {"state_bytes", one.state},
                        {"activation_bytes", one.activations},
                        {"gathered_bytes", one.gathered}});
  }
  return document.dump(2) + "\n";
}

}  // namespace weft::apps
