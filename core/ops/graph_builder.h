#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace weft {

/// Properties of an emulated_block (core/ops/emulated_block.cc).
struct EmulatedBlock {
  Shape features;  ///< Shape of the output without its rows.
  double forward_seconds = 0;
  double input_grad_seconds = 0;
  double weight_grad_seconds = 0;
  /// Elements per row that backward needs besides the inputs.
  std::int64_t saved_per_row = 0;
};

/// Builder of a model's forward graph: each call appends a node and returns the new value.
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
/// The precision of a model is the element type in which ops read parameters. With bf16,
/// activations and their gradients are bf16 too; gradients of parameters, master values and moments
/// stay f32 (core/README.md, "Mixed precision").
///
/// Invalid shapes and element types throw Error(kInvalidArgument) with the op, the shapes, the
/// scope, the block and the names of the inputs. Not thread-safe.
class GraphBuilder {
 public:
  /// Prefix of the names of all nodes and values created during its lifetime. Scopes nest.
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

  /// `precision` is f32 or bf16. Throws Error(kInvalidArgument) for others.
  explicit GraphBuilder(DType precision = DType::kF32);

  /// Adds an input. A real-valued input (pictures, targets of squared_error, weights of
  /// cross_entropy) is f32 in either precision; see convert.
  ValueId input(const std::string& name, TensorType type, std::vector<std::string> axes);
  /// Adds a parameter. `axes` are logical names of the dimensions; see Parameter. Pass decay =
  /// false for biases and norms.
  ValueId parameter(const std::string& name, Shape shape, Initializer initializer,
                    std::vector<std::string> axes, bool decay = true);

  // The file of each op in core/ops describes its computation and shapes, and defines its method.
  ValueId linear(ValueId x, ValueId w, std::optional<ValueId> bias = std::nullopt);
  /// Multiplies x[..., N] by the transpose of w[K, N], for an output layer that shares the
  /// embedding's table.
  ValueId linear_transposed(ValueId x, ValueId w);
  ValueId add(ValueId a, ValueId b);
  ValueId gelu(ValueId x);
  ValueId layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon = 1e-5);
  ValueId attention(ValueId qkv, std::int64_t head_dim);
  ValueId embedding(ValueId table, ValueId ids);
  /// Inputs must have equal rows (dimension 0); w must have one dimension.
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
  /// Converts x to f32 or bf16: b.convert(pixels, b.precision()). Returns x if it has that type.
  ValueId convert(ValueId x, DType to);

  /// Appends any op. Returns its first output.
  ValueId append(Op op, std::vector<ValueId> inputs);

  DType precision() const { return precision_; }

  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

  /// Sets the block of subsequent nodes. Stages are cut between blocks. Must not decrease.
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
