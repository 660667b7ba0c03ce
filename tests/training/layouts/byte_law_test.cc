// Tests the traffic of named layouts, read from compiled programs, against closed forms (Bian et
// al. 2021, arXiv 2105.14450, section 3; SUMMA; Megatron), and the devices' memory.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/ops/op_definition.h"
#include "mesh/layouts/linear_traffic.h"
#include "mesh/program/internal/gradient_sums.h"
#include "mesh/program/parameter_blocks.h"
#include "tests/training/layouts/gpt_on_layouts.h"

namespace weft::test {
namespace {

/// Bytes that one device receives in a step of one microbatch.
struct Received {
  /// Bytes per forward linear: X, W and Y in `forward`, their gradients in `backward`.
  std::map<NodeId, double> forward, backward;
  double statistics = 0;  ///< Layer norm statistics, both passes.
  double vectors = 0;     ///< Norm parameters, biases and their gradients.
};

bool is_linear(const Node& node) {
  return node.op.kind == OpKind::kLinear && node.pass == Pass::kForward;
}

/// Returns the node, or the forward of a gradient node, if it is a linear.
std::optional<NodeId> linear_at(const Graph& graph, NodeId id) {
  const NodeId forward = graph.node(id).forward.value_or(id);
  return is_linear(graph.node(forward)) ? std::optional(forward) : std::nullopt;
}

/// Returns the linear for which a value is moved: the producer of a partial sum, or the linear that
/// reads the moved value.
std::optional<NodeId> linear_of(const Graph& graph, const mesh::MeshPartition& part,
                                const mesh::MoveStep& move) {
  if (move.move.from.is_partial())
    return linear_at(graph, *graph.value(part.locals[move.input].value).producer);
  std::set<mesh::LocalId> moved{move.output};
  for (const mesh::Step& step : part.steps) {
    const auto* next = std::get_if<mesh::MoveStep>(&step.what);
    if (next != nullptr && moved.contains(next->input)) moved.insert(next->output);
  }
  for (const mesh::Step& step : part.steps) {
    const auto* compute = std::get_if<mesh::ComputeStep>(&step.what);
    if (compute == nullptr) continue;
    for (const mesh::LocalId input : compute->inputs)
      if (moved.contains(input)) return linear_at(graph, compute->node);
  }
  return std::nullopt;
}

bool is_vector(const Graph& graph, ValueId value) {
  return graph.value(value).name.ends_with("bias") || graph.value(value).type.shape.size() == 1;
}

/// Adds the bytes of the gradients' buckets, each to its gradients by their sizes.
void add_gradients(const mesh::TrainingPlan& plan, std::size_t device, Received& result) {
  const mesh::MeshView view(plan.partition, mesh::MeshId(0));
  const Graph& graph = plan.partition.graph;
  const mesh::Program& program = plan.train.programs[device];
  mesh::TransferNumbers numbers;
  std::map<transfer::DeviceId, mesh::Emitter> devices;
  const mesh::MeshEmitters emitters(view.mesh(), std::vector<int>(view.mesh().size(), 0), "",
                                    plan.topology, numbers, devices);
  const mesh::GradientSums sums(view, emitters, {}, plan.schedule, plan.topology, plan.network);
  for (const mesh::GradientBucket& bucket : sums.buckets()) {
    for (const mesh::Transfer& transfer : program.transfers) {
      // Parts that are partial over more axes follow in an all-reduce of their own.
      const bool is_rest = transfer.name == "all-reduce " + bucket.name;
      if (!is_rest && transfer.name != bucket.name) continue;
      for (const std::size_t index : bucket.sums) {
        const mesh::GradientSum& sum = sums.sums()[index];
        const mesh::LocalId part = is_rest ? sums.parameter_of(sum) : sum.term.gradient;
        const auto rank = static_cast<int>(device);
        const double bytes = static_cast<double>(transfer.bytes_received()) *
                             static_cast<double>(view.local_type(part, rank).bytes()) /
                             static_cast<double>(transfer.source_bytes());
        const Value& gradient = view.value(sum.term.gradient);
        if (is_vector(graph, view.local(sums.parameter_of(sum)).value)) result.vectors += bytes;
        else if (const auto linear = linear_at(graph, *gradient.producer))
          result.backward[*linear] += bytes;
      }
    }
  }
}

Received received_by(const mesh::TrainingPlan& plan, std::size_t device) {
  const mesh::Partition& partition = plan.partition;
  const Graph& graph = partition.graph;
  const mesh::MeshPartition& part = partition.per_mesh[mesh::MeshId(0)];
  const mesh::Program& program = plan.train.programs[device];
  Received result;
  std::size_t next = 0;
  for (const mesh::Step& step : part.steps) {
    const auto* move = std::get_if<mesh::MoveStep>(&step.what);
    if (move == nullptr || move->move.kind == mesh::MoveKind::kSlice) continue;
    // A device takes part in one group of each move. Its transfers are numbered in that order.
    const auto bytes = static_cast<double>(program.transfers.at(next++).bytes_received());
    const ValueId value = part.locals[move->input].value;
    const auto linear = linear_of(graph, part, *move);
    const OpKind producer = graph.value(value).producer
                                ? graph.node(*graph.value(value).producer).op.kind
                                : OpKind::kAdd;
    const ValueId of = graph.value(value).gradient_of.value_or(value);
    if (producer == OpKind::kLayerNormMoments || producer == OpKind::kLayerNormStatistics ||
        producer == OpKind::kLayerNormGradientSums) {
      // Counts bytes of a ring. So small a reduction takes one hop and sends more bytes.
      const Shape& shape = graph.value(value).type.shape;
      result.statistics += 4.0 * static_cast<double>(received_elements(
                                     shape, move->move, partition.meshes[mesh::MeshId(0)]));
    } else if (is_vector(graph, of)) {
      result.vectors += bytes;
    } else if (linear) {
      (step.pass == Pass::kForward ? result.forward : result.backward)[*linear] += bytes;
    }
  }
  add_gradients(plan, device, result);
  return result;
}

/// M, K and N of a linear.
struct Product {
  double m, k, n;
};

Product product_of(const Graph& graph, NodeId linear) {
  const Node& node = graph.node(linear);
  const Shape& x = graph.value(node.inputs[0]).type.shape;
  const Shape& w = graph.value(node.inputs[1]).type.shape;
  double n = 1;
  for (std::size_t d = 1; d < w.size(); ++d) n *= static_cast<double>(w[d]);
  return {static_cast<double>(x[0] * x[1]), static_cast<double>(w[0]), n};
}

/// Returns a shape so large that no collective of a linear takes one hop.
apps::GptShape large_gpt(std::int64_t q) {
  apps::GptShape shape;
  shape.layers = 1;
  shape.width = q == 2 ? 512 : 96 * q * q;
  shape.heads = q;
  shape.sequence = q == 3 ? 243 : 256;
  shape.batch = q * q;
  shape.vocabulary = shape.width;
  return shape;
}

LayoutMesh cube(int q, std::optional<mesh::GatherFrequency> gather = {}) {
  return {"3d", {{"i", q}, {"j", q}, {"l", q}}, gather};
}
LayoutMesh square(int q, std::optional<mesh::GatherFrequency> gather = {}) {
  return {"2d", {{"r", q}, {"c", q}}, gather};
}

class ByteLaw : public testing::TestWithParam<int> {};

TEST_P(ByteLaw, EveryLinearOfACubeReceivesWhatTheLawSays) {
  const int q = GetParam();
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    const mesh::TrainingPlan plan =
        plan_on({cube(q, again ? mesh::GatherFrequency::kUse : mesh::GatherFrequency::kMicrobatch)},
                large_gpt(q), 1);
    for (const std::size_t device : {std::size_t{0}, plan.train.programs.size() - 1}) {
      const Received received = received_by(plan, device);
      ASSERT_EQ(received.forward.size(), 5u);
      for (const auto& [linear, forward] : received.forward) {
        const Product p = product_of(plan.partition.graph, linear);
        const double share = 4.0 * (q - 1) / (q * q * q);
        const double all = share * (p.m * p.k + p.k * p.n + p.m * p.n);
        EXPECT_DOUBLE_EQ(forward, all) << "linear " << linear.value();
        EXPECT_DOUBLE_EQ(received.backward.at(linear),
                         again ? all + share * (p.m * p.k + p.k * p.n) : all)
            << "linear " << linear.value();
      }
      // The model has three layer norms.
      const Product p = product_of(plan.partition.graph, received.forward.begin()->first);
      EXPECT_LE(received.statistics, 3 * 4.0 * 8 * (q - 1) * p.m / (q * q * q));
      double linears = 0;
      for (const auto& [linear, bytes] : received.forward) linears += bytes;
      for (const auto& [linear, bytes] : received.backward) linears += bytes;
      if (q == 2) {
        EXPECT_LE(received.statistics + received.vectors, 0.02 * linears);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cubes, ByteLaw, testing::Values(2, 3, 4));

TEST(ByteLaws, ASquareReceivesWhatSummaDoes) {
  for (const int q : {2, 4}) {
    SCOPED_TRACE(q);
    for (const bool again : {false, true}) {
      const mesh::TrainingPlan plan = plan_on(
          {square(q, again ? mesh::GatherFrequency::kUse : mesh::GatherFrequency::kMicrobatch)},
          large_gpt(q), 1);
      const Received received = received_by(plan, 0);
      for (const auto& [linear, forward] : received.forward) {
        const Product p = product_of(plan.partition.graph, linear);
        const double all = 4.0 * (q - 1) / (q * q) * (p.m * p.k + p.k * p.n);
        EXPECT_DOUBLE_EQ(forward, all) << "linear " << linear.value();
        EXPECT_DOUBLE_EQ(received.backward.at(linear), again ? 2 * all : all)
            << "linear " << linear.value();
      }
    }
  }
}

TEST(ByteLaws, TensorParallelismReceivesWhatMegatronDoes) {
  const int devices = 4;
  apps::GptShape shape = large_gpt(2);
  shape.heads = devices;
  for (const char* layout : {"1d", "1d-sequence"}) {
    SCOPED_TRACE(layout);
    const mesh::TrainingPlan plan = plan_on({{layout, {{"tensor", devices}}}}, shape, 1);
    double linears = 0;
    const Received received = received_by(plan, 0);
    for (const auto& [linear, bytes] : received.forward) linears += bytes;
    for (const auto& [linear, bytes] : received.backward) linears += bytes;
    const double mh = static_cast<double>(shape.batch * shape.sequence * shape.width);
    // Two pairs of linears receive this in both passes, the output layer in backward. With sequence
    // parallelism, its forward gathers the same bytes.
    const double each = 4.0 * 2 * (devices - 1) / devices * mh;
    EXPECT_DOUBLE_EQ(linears, 5 * each) << linears / each;
  }
}

/// True if the linear reads the residual stream.
bool expands(const Graph& graph, const Node& linear) {
  return std::ranges::any_of(graph.parameters(), [&](const Parameter& parameter) {
    return parameter.value == linear.inputs[1] && parameter.axes.front() == "embed";
  });
}

/// Tests the closed forms that `weft strategy compare` prints, for every layout, on axes of
/// different sizes, with and without a data axis.
TEST(ByteLaws, ClosedFormsHoldForEveryLayout) {
  using mesh::GatherFrequency;
  LayoutMesh beside_data{"1d", {{"data", 2}, {"t", 4}}}, sharded_too = beside_data;
  sharded_too.shard_data = true;
  for (const LayoutMesh& on :
       std::vector<LayoutMesh>{{"1d", {{"t", 8}}},
                               {"1d-sequence", {{"t", 8}}},
                               {"2d", {{"r", 2}, {"c", 4}}, GatherFrequency::kUse},
                               {"2.5d", {{"d", 2}, {"r", 2}, {"c", 2}}},
                               {"2.5d", {{"d", 2}, {"r", 2}, {"c", 2}}, GatherFrequency::kUse},
                               {"3d", {{"i", 2}, {"j", 2}, {"l", 4}}},
                               {"3d", {{"data", 2}, {"i", 1}, {"j", 2}, {"l", 2}}, {}, true},
                               {"fsdp", {{"data", 8}}},
                               {"fsdp", {{"data", 8}}, GatherFrequency::kUse},
                               beside_data,
                               sharded_too}) {
    apps::GptShape shape = large_gpt(2);
    shape.heads = shape.batch = 8;
    const mesh::TrainingPlan plan = plan_on({on}, shape, 1);
    SCOPED_TRACE(on.layout + " on " + to_string(plan.partition.meshes[mesh::MeshId(0)]));
    const Received received = received_by(plan, 0);
    double linears = 0, law = 0;
    for (const auto& [linear, bytes] : received.forward) linears += bytes;
    for (const auto& [linear, bytes] : received.backward) linears += bytes;
    const Graph& graph = plan.partition.graph;
    for (std::uint64_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.node(NodeId(n));
      if (node.op.kind != OpKind::kLinear || node.pass != Pass::kForward) continue;
      const Product p = product_of(graph, NodeId(n));
      for (const mesh::TensorTraffic& of : predict_linear_traffic(
               *plan.layout.meshes[0].layout, plan.partition.meshes[mesh::MeshId(0)],
               {p.m, p.k, p.n, expands(graph, node)}, 1))
        law += 4 * (of.elements + of.gradient_elements);
    }
    EXPECT_DOUBLE_EQ(linears, law);
  }
}

/// Returns the bytes of parameters and moments on a device.
double state_bytes(const mesh::TrainingPlan& plan, std::size_t device) {
  double bytes = 0;
  for (const mesh::ProgramParameter& parameter : plan.train.programs[device].parameters)
    bytes += 12.0 * static_cast<double>(parameter.region.num_elements());
  return bytes;
}

TEST(Storage, ParametersAndMomentsOfACubeAreSharedByAllDevices) {
  for (const int q : {2, 3, 4}) {
    const mesh::TrainingPlan plan = plan_on({cube(q)}, large_gpt(q), 2);
    const double all = 12.0 * static_cast<double>(plan.partition.graph.num_parameter_elements());
    for (std::size_t device = 0; device < plan.train.programs.size(); ++device)
      EXPECT_NEAR(state_bytes(plan, device), all / (q * q * q), 0.02 * all / (q * q * q));
  }
}

/// Returns the bytes of gradients on a device, accumulators included.
double gradient_bytes(const mesh::Program& program) {
  double bytes = 0;
  for (const mesh::PersistentBlock& block : program.persistents)
    if (block.name.starts_with("gradient")) bytes += static_cast<double>(block.bytes);
  return bytes;
}

TEST(Storage, SoAreGradientsThatGoHomeAtOnceAndWhatLinearsKeep) {
  for (const int q : {2, 3, 4}) {
    for (const auto& [gather, microbatches] : {std::pair(mesh::GatherFrequency::kUse, 2),
                                               std::pair(mesh::GatherFrequency::kMicrobatch, 1)}) {
      SCOPED_TRACE(fmt::format("q {}, {} microbatches", q, microbatches));
      const mesh::TrainingPlan plan = plan_on({cube(q, gather)}, large_gpt(q), microbatches);
      const Graph& graph = plan.partition.graph;
      const double devices = q * q * q;
      const double all = 4.0 * static_cast<double>(graph.num_parameter_elements());
      for (const mesh::Program& program : plan.train.programs)
        EXPECT_NEAR(gradient_bytes(program), all / devices, 0.02 * all / devices);
      if (gather != mesh::GatherFrequency::kUse) continue;
      // Inputs of linears that the forward makes and the backward reads.
      std::set<ValueId> inputs_of_linears;
      for (const Node& node : graph.nodes())
        if (is_linear(node)) inputs_of_linears.insert(node.inputs[0]);
      const mesh::MeshPartition& part = plan.partition.per_mesh[mesh::MeshId(0)];
      const mesh::DeviceMesh& mesh = plan.partition.meshes[mesh::MeshId(0)];
      std::set<mesh::LocalId> made_forward;
      int kept = 0;
      for (const mesh::Step& step : part.steps) {
        if (step.pass == Pass::kForward) {
          for (const mesh::LocalId output : outputs_of(step)) made_forward.insert(output);
          continue;
        }
        for (const mesh::LocalId input : inputs_of(step)) {
          const mesh::LocalValue& local = part.locals[input];
          if (!made_forward.contains(input) || !inputs_of_linears.contains(local.value)) continue;
          const Shape& shape = graph.value(local.value).type.shape;
          EXPECT_EQ(num_elements(local_shape(shape, local.spec, mesh, 0)) * devices,
                    num_elements(shape))
              << graph.value(local.value).name;
          ++kept;
        }
      }
      EXPECT_GE(kept, 5);
    }
  }
}

}  // namespace
}  // namespace weft::test
