#include "apps/train/compare_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/config/nearest.h"
#include "core/ops/op_definition.h"
#include "mesh/costs/op_seconds.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/plan/plan_memory.h"

namespace weft::apps {
namespace {

/// The axes of a mesh of so many devices for a layout, as equal as they can be; nothing where they
/// cannot be.
std::optional<std::vector<MeshAxis>> axes_for(const std::string& layout, int devices) {
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

bool suits(const mesh::LayoutChoice& choice, const mesh::MeshConfig& mesh) {
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

mesh::LayoutConfig under(const mesh::LayoutConfig& layout, const std::string& name) {
  mesh::LayoutConfig result = layout;
  result.sharding = {};
  for (mesh::MeshConfig& mesh : result.meshes) {
    mesh::LayoutChoice choice{name, {}};
    if (mesh.layout) choice.gather = mesh.layout->gather;
    mesh.own_strategy.reset();
    if (!suits(choice, mesh)) {
      int devices = 1;
      for (const MeshAxis& axis : mesh.axes) devices *= static_cast<int>(axis.size);
      const auto axes = axes_for(name, devices);
      if (!axes)
        throw_error(ErrorCode::kInvalidConfig, "mesh {} has {} devices, which {} cannot use",
                    mesh.name, devices, name);
      mesh.axes = *axes;
    }
    mesh.layout = std::move(choice);
  }
  return result;
}

/// Elements that a device receives for one linear x[M,K] w[K,N], forward and backward, in a step.
/// `q`: devices along each axis.
double law_of(const std::string& layout, int q, double m, double k, double n, bool expands,
              int microbatches, mesh::Gather gather) {
  const bool one = microbatches == 1;
  const double gathers = gather == mesh::Gather::kStep ? 1 : microbatches;
  const double reductions = gather == mesh::Gather::kUse && !one ? microbatches : 1;
  const double again = gather == mesh::Gather::kUse ? microbatches : 0;
  const double weights = (gathers + reductions + again) * k * n;
  if (layout == "3d") {
    const double share = (q - 1.0) / (q * q * q);
    return share * (2 * microbatches * (m * k + m * n) + again * m * k + weights);
  }
  if (layout == "2d") {
    const double share = (q - 1.0) / (q * q);
    return share * (2 * microbatches * m * k + again * m * k + weights);
  }
  return 2 * (q - 1.0) / q * microbatches * (expands ? m * k : m * n);
}

double law_of(const mesh::TrainingPlan& plan, const std::string& layout) {
  if (layout != "1d" && layout != "2d" && layout != "3d") return 0;
  double bytes = 0;
  const mesh::Partition& partition = plan.partition;
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = partition.graph.node(id);
    if (node.op.kind != OpKind::kLinear || node.pass != Pass::kForward) continue;
    const mesh::MeshId mesh = partition.mesh_of_stage[partition.stage_of_node[id]];
    const std::vector<MeshAxis>& axes = partition.meshes[mesh].axes();
    const int q = static_cast<int>(axes.front().size);
    if (std::ranges::any_of(axes, [&](const MeshAxis& axis) { return axis.size != q; })) return 0;
    const TensorType &x = partition.graph.value(node.inputs[0]).type,
                     &w = partition.graph.value(node.inputs[1]).type;
    const auto k = static_cast<double>(w.shape.front());
    const double n = static_cast<double>(w.elements()) / k;
    const double m = static_cast<double>(x.elements()) / k;
    // A contract's output is no wider than the residual stream, which is what an expand takes.
    const bool expands =
        std::ranges::any_of(partition.graph.parameters(), [&](const Parameter& parameter) {
          return parameter.value == node.inputs[1] && parameter.axes.front() == "embed";
        });
    bytes +=
        static_cast<double>(size_of(x.dtype)) *
        law_of(layout, q, m, k, n, expands, plan.layout.microbatches,
               plan.layout.meshes[mesh.value()].layout->gather.value_or(mesh::Gather::kMicrobatch));
  }
  return bytes;
}

std::map<std::string, double> bytes_by_axes(const mesh::TrainingPlan& plan) {
  std::map<std::string, double> bytes;
  const mesh::Partition& partition = plan.partition;
  for (const mesh::MeshId id : partition.meshes.ids()) {
    const mesh::MeshPartition& part = partition.per_mesh[id];
    const mesh::DeviceMesh& mesh = partition.meshes[id];
    for (const mesh::Step& step : part.steps) {
      const auto* move = std::get_if<mesh::MoveStep>(&step.what);
      if (move == nullptr || move->move.kind == mesh::MoveKind::kSlice) continue;
      const TensorType& type = partition.graph.value(part.locals[move->input].value).type;
      const int times = part.locals[move->output].once_per_step ? 1 : plan.layout.microbatches;
      bytes[axes_text(move->move.axes, mesh)] +=
          static_cast<double>(times) * static_cast<double>(size_of(type.dtype)) *
          static_cast<double>(received_elements(type.shape, move->move, mesh));
    }
  }
  return bytes;
}

LayoutFigures figures_of(const RunConfig& config, const std::string& name) {
  LayoutFigures figures;
  figures.layout = name;
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (const actors::HostSpec& host : config.cluster.hosts)
    hosts.emplace_back(host.name, host.devices);
  mesh::TrainingPlan plan;
  try {
    const mesh::LayoutConfig layout = under(config.layout, name);
    plan = mesh::make_training_plan(layout, config.model.graphs, plan_places(layout, hosts));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    figures.refusal = error.message();
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
      if (transfer.kind == mesh::TransferKind::kNorm) continue;
      received += static_cast<double>(transfer.bytes_received());
      ++transfers;
    }
    const transfer::DeviceId device(d);
    const std::uint64_t activations = arena_bytes(plan, device);
    figures.received = std::max(figures.received, received);
    figures.transfers = std::max(figures.transfers, transfers);
    figures.activations = std::max(figures.activations, activations);
    figures.state = std::max(figures.state, device_memory(plan, device) - activations);
  }
  figures.law = law_of(plan, name);
  figures.by_axes = bytes_by_axes(plan);
  figures.seconds = simulate_step(plan, program_seconds(plan, mesh::cost_model_seconds(0))).step;
  return figures;
}

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

}  // namespace

std::vector<LayoutFigures> compare_layouts(const RunConfig& config,
                                           const std::vector<std::string>& layouts) {
  const std::vector<std::string> known = mesh::layout_names();
  for (const std::string& name : layouts)
    if (std::ranges::find(known, name) == known.end())
      throw_error(ErrorCode::kInvalidArgument, "--layouts {}: there are {}{}", name,
                  fmt::join(known, ", "), did_you_mean(name, known));
  std::vector<LayoutFigures> figures;
  for (const std::string& name : layouts) figures.push_back(figures_of(config, name));
  return figures;
}

std::string to_table(const std::vector<LayoutFigures>& figures) {
  std::string text =
      fmt::format("{:<12} {:>10} {:>10} {:>9} {:>10} {:>11} {:>9}  {}\n", "layout", "receives",
                  "linears'", "transfers", "state", "activations", "step", "axes");
  std::string below;
  for (const LayoutFigures& one : figures) {
    if (!one.refusal.empty()) {
      below += fmt::format("{}: {}\n", one.layout, one.refusal);
      continue;
    }
    std::string axes;
    for (const auto& [name, bytes] : one.by_axes)
      axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", name, bytes_text(bytes));
    text += fmt::format("{:<12} {:>10} {:>10} {:>9} {:>10} {:>11} {:>9}  {}\n", one.layout,
                        bytes_text(one.received), one.law > 0 ? bytes_text(one.law) : "-",
                        one.transfers, format_bytes(one.state), format_bytes(one.activations),
                        format_seconds(one.seconds), axes);
  }
  return text + below +
         "receives: bytes of a step, of the device that receives most; linears': the closed form "
         "for "
         "linears alone;\nstate: parameters, gradients, moments; step: if devices took no time; "
         "axes: "
         "what moves along which\n";
}

std::string to_json(const std::vector<LayoutFigures>& figures) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const LayoutFigures& one : figures) {
    if (!one.refusal.empty()) {
      document.push_back({{"layout", one.layout}, {"refusal", one.refusal}});
      continue;
    }
    document.push_back({{"layout", one.layout},
                        {"meshes", one.meshes},
                        {"received_bytes", one.received},
                        {"law_of_linears_bytes", one.law},
                        {"bytes_by_axes", one.by_axes},
                        {"transfers", one.transfers},
                        {"state_bytes", one.state},
                        {"activation_bytes", one.activations},
                        {"step_seconds_without_compute", one.seconds}});
  }
  return document.dump(2) + "\n";
}

}  // namespace weft::apps
