#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace weft {

/// What an emulated_block stands for (core/ops/emulated_block.cc).
struct EmulatedBlock {
  Shape features;  ///< The output's shape after its rows.
  double forward_seconds = 0;
  double input_grad_seconds = 0;
  double weight_grad_seconds = 0;
  /// Elements that its backward needs, beside the inputs, per row.
  std::int64_t saved_per_row = 0;
};

/// How an app writes its model: each call appends a node to a forward graph and gives the new
/// value.
///
///   GraphBuilder b;
///   const ValueId ids =
///       b.input("tokens", {DType::kI32, {batch, sequence}}, {"batch", "sequence"});
///   const ValueId table =
///       b.parameter("embedding", {vocabulary, width}, normal(0.02), {"vocab", "embed"});
///   ValueId x = b.embedding(table, ids);
///   for (int layer = 0; layer < layers; ++layer) {
///     b.set_block(layer);
///     const auto scope = b.scope("h" + std::to_string(layer));   // names begin with "h0."
///     x = b.layer_norm(x, gamma, beta);
///     ...
///   }
///   Graph graph = std::move(b).finish();
///
/// The precision of a model is the element type of its parameters, as its ops read them: with bf16
/// so are all activations and their gradients, while gradients of parameters, master values and
/// moments stay f32 (core/README.md, "Mixed precision").
///
/// Shapes and element types that do not fit throw Error(kInvalidArgument) with the op, the shapes,
/// the scope, the block and the names of the inputs. One thread at a time.
class GraphBuilder {
 public:
  /// Prefixes the names of what is made while it lives. Scopes nest.
  class [[nodiscard]] Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { builder_.prefix_.resize(size_before_); }

   private:
    friend class GraphBuilder;
    Scope(GraphBuilder& builder, const std::string& name)
        : builder_(builder), size_before_(builder.prefix_.size()) {
      builder_.prefix_ += name + ".";
    }
    GraphBuilder& builder_;
    std::size_t size_before_;
  };

  /// `precision` is f32 or bf16; throws Error(kInvalidArgument) for others.
  explicit GraphBuilder(DType precision = DType::kF32);

  /// A float input (pictures, targets of squared_error, weights of cross_entropy) is f32 in either
  /// precision; see convert.
  ValueId input(const std::string& name, TensorType type, std::vector<std::string> axes);
  /// `axes` are logical names of the dimensions; see Parameter. Biases and norms pass decay =
  /// false.
  ValueId parameter(const std::string& name, Shape shape, Initializer initializer,
                    std::vector<std::string> axes, bool decay = true);

  // What each computes, with shapes, stands in its file in core/ops, which also defines the method.
  ValueId linear(ValueId x, ValueId w, std::optional<ValueId> bias = std::nullopt);
  /// x[..., N] times the transpose of w[K, N]: for an output layer that shares the embedding's
  /// table.
  ValueId linear_transposed(ValueId x, ValueId w);
  ValueId add(ValueId a, ValueId b);
  ValueId gelu(ValueId x);
  ValueId layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon = 1e-5);
  ValueId attention(ValueId qkv, std::int64_t head_dim);
  ValueId embedding(ValueId table, ValueId ids);
  /// Inputs must have equal rows (dimension 0); w has one dimension.
  ValueId emulated_block(std::vector<ValueId> inputs, ValueId w, const EmulatedBlock& block);
  ValueId cross_entropy(ValueId logits, ValueId targets, double scale,
                        std::optional<ValueId> weights = std::nullopt);
  ValueId silu(ValueId x);
  ValueId sigmoid(ValueId x);
  ValueId multiply(ValueId a, ValueId b);
  ValueId convolution(ValueId x, ValueId w, std::optional<ValueId> bias, std::int64_t stride,
                      std::int64_t padding);
  ValueId group_norm(ValueId x, ValueId gamma, ValueId beta, std::int64_t group_size,
                     double epsilon = 1e-5);
  ValueId upsample(ValueId x, std::int64_t factor);
  ValueId concat(ValueId a, ValueId b);
  ValueId add_channels(ValueId x, ValueId t);
  ValueId cross_attention(ValueId q, ValueId k, ValueId v, std::int64_t head_dim);
  ValueId squared_error(ValueId x, ValueId target, double scale);
  /// x itself if it has the element type, f32 or bf16, else a node that converts: b.convert(pixels,
  /// b.precision()).
  ValueId convert(ValueId x, DType to);

  /// Any op, as a value; gives its first output.
  ValueId append(Op op, std::vector<ValueId> inputs);

  DType precision() const { return precision_; }

  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

  /// The block of the nodes that follow; stages are cut between blocks. Must not decrease.
  void set_block(int block);
  Scope scope(const std::string& name) { return Scope(*this, name); }

  const Graph& graph() const { return graph_; }
  Graph finish() && { return std::move(graph_); }

 private:
  std::string names_of(const std::vector<ValueId>& values) const;

  DType precision_;
  Graph graph_;
  std::string prefix_;
  int block_ = 0;
};

inline Initializer zeros() { return {Initializer::Kind::kZeros, 0}; }
inline Initializer ones() { return {Initializer::Kind::kOnes, 0}; }
inline Initializer normal(double standard_deviation) {
  return {Initializer::Kind::kNormal, standard_deviation};
}

}  // namespace weft
