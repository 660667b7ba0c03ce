#include "apps/models/gpt_graph.h"

#include <cmath>
#include <string>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {
namespace {

constexpr double kStandardDeviation = 0.02;

void check(const GptShape& shape) {
  if (shape.layers < 1 || shape.width < 1 || shape.heads < 1 || shape.sequence < 1 ||
      shape.batch < 1 || shape.vocabulary < 1) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "every size of a GPT must be at least 1, but layers={} width={} heads={} sequence={} "
        "batch={} vocabulary={}",
        shape.layers, shape.width, shape.heads, shape.sequence, shape.batch, shape.vocabulary);
  }
  if (shape.width % shape.heads != 0) {
    throw_error(ErrorCode::kInvalidArgument, "the width {} cannot be divided among {} heads",
                shape.width, shape.heads);
  }
}

ValueId norm(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t width) {
  const auto scope = b.scope(name);
  const ValueId gamma = b.parameter("gamma", {width}, ones(), {"embed"}, false);
  const ValueId beta = b.parameter("beta", {width}, zeros(), {"embed"}, false);
  return b.layer_norm(x, gamma, beta);
}

/// Returns x + projection(attention(qkv(norm(x)))).
ValueId attention_part(GraphBuilder& b, const GptShape& shape, ValueId x,
                       double residual_deviation) {
  const std::int64_t width = shape.width;
  const ValueId normed = norm(b, "ln1", x, width);
  const auto scope = b.scope("attention");
  const ValueId qkv_weight = b.parameter("qkv.weight", {width, 3, width},
                                         normal(kStandardDeviation), {"embed", "qkv", "heads"});
  const ValueId qkv_bias = b.parameter("qkv.bias", {3, width}, zeros(), {"qkv", "heads"}, false);
  const ValueId mixed = b.attention(b.linear(normed, qkv_weight, qkv_bias), width / shape.heads);
  const ValueId weight = b.parameter("projection.weight", {width, width},
                                     normal(residual_deviation), {"heads", "embed"});
  const ValueId bias = b.parameter("projection.bias", {width}, zeros(), {"embed"}, false);
  return b.add(x, b.linear(mixed, weight, bias));
}

/// Returns x + contract(gelu(expand(norm(x)))).
ValueId mlp_part(GraphBuilder& b, const GptShape& shape, ValueId x, double residual_deviation) {
  const std::int64_t width = shape.width, inner = 4 * shape.width;
  const ValueId normed = norm(b, "ln2", x, width);
  const auto scope = b.scope("mlp");
  const ValueId expand_weight =
      b.parameter("expand.weight", {width, inner}, normal(kStandardDeviation), {"embed", "mlp"});
  const ValueId expand_bias = b.parameter("expand.bias", {inner}, zeros(), {"mlp"}, false);
  const ValueId active = b.gelu(b.linear(normed, expand_weight, expand_bias));
  const ValueId weight =
      b.parameter("contract.weight", {inner, width}, normal(residual_deviation), {"mlp", "embed"});
  const ValueId bias = b.parameter("contract.bias", {width}, zeros(), {"embed"}, false);
  return b.add(x, b.linear(active, weight, bias));
}

}  // namespace

GptGraph gpt_graph(const GptShape& shape, double loss_scale) {
  check(shape);
  // Each layer adds two terms to the residual stream. Scales their initial weights as GPT-2 does,
  // so that the variance does not grow with depth.
  const double residual_deviation = kStandardDeviation / std::sqrt(2.0 * shape.layers);
  GraphBuilder b(shape.precision);
  GptGraph result;
  result.tokens =
      b.input("tokens", {DType::kI32, {shape.batch, shape.sequence}}, {"batch", "sequence"});
  result.targets =
      b.input("targets", {DType::kI32, {shape.batch, shape.sequence}}, {"batch", "sequence"});
  const ValueId table = b.parameter("embedding", {shape.vocabulary, shape.width},
                                    normal(kStandardDeviation), {"vocab", "embed"});
  const ValueId positions = b.parameter("positions", {shape.sequence, shape.width},
                                        normal(kStandardDeviation), {"sequence", "embed"});
  ValueId x = b.add(b.embedding(table, result.tokens), positions);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    b.set_block(layer);
    const auto scope = b.scope("h" + std::to_string(layer));
    x = attention_part(b, shape, x, residual_deviation);
    x = mlp_part(b, shape, x, residual_deviation);
  }
  x = norm(b, "final", x, shape.width);
  result.logits = shape.tied_embeddings
                      ? b.linear_transposed(x, table)
                      : b.linear(x, b.parameter("head", {shape.width, shape.vocabulary},
                                                normal(kStandardDeviation), {"embed", "vocab"}));
  result.loss = b.cross_entropy(result.logits, result.targets, loss_scale);
  result.graph = std::move(b).finish();
  return result;
}

}  // namespace weft::apps
