#include "apps/bench/pipeline/emulated_graph.h"

#include <string>
#include <utility>

#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {

mesh::ModelGraphs emulated_graphs(std::int64_t rows, const std::vector<EmulatedPiece>& pieces,
                                  std::int64_t tensor_parallel) {
  if (rows < 1 || pieces.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "an emulated model needs rows and pieces, but has {} and {}", rows, pieces.size());
  GraphBuilder b;
  const std::vector<std::string> axes{"batch", "features"};
  const ValueId samples = b.input("samples", {DType::kF32, {rows, 1}}, axes);
  const ValueId targets = b.input("targets", {DType::kF32, {rows, pieces.back().features}}, axes);
  const auto block = [&](const std::string& name, std::vector<ValueId> inputs,
                         const EmulatedBlock& what, std::int64_t weights = 1) {
    const auto scope = b.scope(name);
    return b.emulated_block(std::move(inputs),
                            b.parameter("weight", {weights}, zeros(), {"weights"}), what);
  };
  const auto all_reduced = [&](const std::string& name, ValueId x) {
    const ValueId one = block(name + ".pulse", {x}, {.features = {1}});
    const ValueId columns = b.parameter(name + ".columns", {1, tensor_parallel}, zeros(),
                                        {"features", kTensorParallelAxis});
    const ValueId rows_of = b.parameter(name + ".rows", {tensor_parallel, 1}, zeros(),
                                        {kTensorParallelAxis, "features"});
    return b.linear(b.linear(one, columns), rows_of);
  };
  b.set_block(0);
  const ValueId entry = block("entry", {samples}, {.features = {1}});
  std::vector<ValueId> made;
  for (const EmulatedPiece& piece : pieces) {
    b.set_block(piece.block);
    std::vector<ValueId> inputs;
    for (const int input : piece.inputs) {
      if (input < 0 || static_cast<std::size_t>(input) >= made.size())
        throw_error(ErrorCode::kInvalidArgument,
                    "piece {} cannot use piece {}: it must come after what it uses", made.size(),
                    input);
      inputs.push_back(made[input]);
    }
    if (inputs.empty()) inputs.push_back(entry);
    const std::string name = "piece" + std::to_string(made.size());
    if (tensor_parallel > 1) inputs.push_back(all_reduced(name, inputs.front()));
    made.push_back(block(name, std::move(inputs),
                         {.features = {piece.features},
                          .forward_seconds = piece.forward_seconds,
                          .input_grad_seconds = piece.input_grad_seconds,
                          .weight_grad_seconds = piece.weight_grad_seconds},
                         piece.weights));
  }
  const ValueId loss = b.squared_error(made.back(), targets, 1.0);
  const Graph graph = std::move(b).finish();
  return {differentiate(graph, loss), graph, loss};
}

PassSeconds pass_seconds(const Graph& training, int first, int last) {
  PassSeconds seconds;
  for (const Node& node : training.nodes()) {
    if (node.block < first || node.block >= last) continue;
    switch (node.op.kind) {
      case OpKind::kEmulatedBlock: seconds.forward += node.op.real("seconds"); break;
      case OpKind::kEmulatedInputGrad: seconds.input_grad += node.op.real("seconds"); break;
      case OpKind::kEmulatedWeightGrad: seconds.weight_grad += node.op.real("seconds"); break;
      default: break;
    }
  }
  return seconds;
}

}  // namespace weft::apps
