#include "apps/bench/sharding/sharding_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "apps/bench/pipeline/pipeline_model.h"
#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/program/op_time_model.h"

namespace weft::apps {
namespace {

/// Returns q such that q^dimensions is the number of devices. Throws Error(kInvalidArgument) if
/// there is none.
int side(const ShardingCase& c, int dimensions) {
  const int q = static_cast<int>(std::lround(std::pow(c.devices, 1.0 / dimensions)));
  if (std::lround(std::pow(q, dimensions)) != c.devices)
    throw_error(ErrorCode::kInvalidArgument, "layout {} takes q^{} devices, such as {}, not {}",
                c.layout, dimensions, dimensions == 3 ? "8, 27 or 64" : "4, 16 or 64", c.devices);
  return q;
}

std::vector<MeshAxis> axes_of(const ShardingCase& c) {
  if (c.layout == "2d") return {{"row", side(c, 2)}, {"column", side(c, 2)}};
  if (c.layout == "3d") {
    const int q = side(c, 3);
    return {{"weight", q}, {"input", q}, {"output", q}};
  }
  return {{c.layout.starts_with("1d") ? "tensor" : "data", c.devices}};
}

GptShape shape_of(const ShardingCase& c) {
  GptShape shape;
  shape.layers = c.layers;
  shape.width = c.width;
  // Makes these sizes divisible under every layout of that many devices, in halves too.
  shape.heads = c.devices;
  shape.batch = 2 * c.devices;
  shape.vocabulary = c.width;
  const double sequence =
      c.tokens_by_width * static_cast<double>(c.width) / static_cast<double>(shape.batch);
  shape.sequence = std::lround(sequence);
  if (std::abs(sequence - static_cast<double>(shape.sequence)) > 1e-9 || shape.sequence < 1)
    throw_error(ErrorCode::kInvalidArgument,
                "{} tokens do not divide into {} sequences; take another M/H or width",
                c.tokens_by_width * static_cast<double>(c.width), shape.batch);
  if (c.duplex == mesh::Duplex::kHalves) shape.batch /= 2;
  return shape;
}

}  // namespace

ShardingModel make_sharding_model(const ShardingCase& c, std::uint64_t link_bits) {
  ShardingModel model;
  mesh::MeshConfig mesh{"mesh0", {}, axes_of(c)};
  if (c.layout == "data") model.layout.sharding.axes = {{"batch", {"data"}}};
  else mesh.layout = mesh::LayoutChoice{c.layout, {}};
  const GptShape shape = shape_of(c);
  const GptGraph gpt = gpt_graph(shape, 1.0 / static_cast<double>(shape.batch * shape.sequence));
  model.graphs = {differentiate(gpt.graph, gpt.loss), gpt.graph, gpt.loss};
  model.batches = pipeline_batches(gpt.graph, shape.vocabulary);
  for (int host = 0; host < c.devices; ++host) {
    const std::string name = fmt::format("host{}", host);
    model.hosts.emplace_back(name, 1);
    mesh.hosts.push_back(name);
    if (link_bits > 0)
      model.conditions.links[name] = static_cast<double>(link_bits) / 8 * kLinkGoodput;
  }
  if (c.flops_per_second > 0) model.conditions.flops_per_second = c.flops_per_second;
  model.layout.meshes.push_back(std::move(mesh));
  model.layout.stages.push_back({0, static_cast<int>(shape.layers)});
  model.layout.schedule = "1f1b";
  model.layout.microbatches = c.microbatches;
  model.layout.duplex = c.duplex;
  return model;
}

double received_bytes(const mesh::Program& program) {
  std::uint64_t bytes = 0;
  for (const mesh::Instruction& instruction : program.instructions) {
    const auto* start = std::get_if<mesh::Start>(&instruction);
    if (start == nullptr) continue;
    const mesh::Transfer& transfer = program.transfers[start->transfer];
    if (transfer.kind != mesh::TransferPurpose::kNorm) bytes += transfer.bytes_received();
  }
  return static_cast<double>(bytes);
}

double received_bytes(const mesh::TrainingPlan& plan) {
  double most = 0;
  for (const mesh::Program& program : plan.train.programs)
    most = std::max(most, received_bytes(program));
  return most;
}

double forecast_seconds(const mesh::TrainingPlan& plan, double flops_per_second) {
  return simulate_step(plan, program_seconds(plan, mesh::cost_model_seconds(flops_per_second)))
      .step;
}

double most_flops(const mesh::TrainingPlan& plan) {
  double most = 0;
  for (const std::vector<double>& device : program_seconds(plan, mesh::cost_model_seconds(1)))
    most = std::max(most, std::accumulate(device.begin(), device.end(), 0.0));
  return most;
}

double closed_form_speedup_3d(int q, double m) { return (q * q + q + 1) * m / (4 * m + 3); }

}  // namespace weft::apps
