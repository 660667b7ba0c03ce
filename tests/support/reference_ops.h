#pragma once

// Every forward op in plain double-precision loops, straight from the formulas in core/ops: what
// kernels and gradients are tested against.
#include <cmath>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"

namespace weft::test {

using Numbers = std::vector<double>;  // i32 inputs too

namespace reference {

inline Numbers add(const Numbers& a, const Numbers& b) {
  Numbers y = a;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  return y;
}

inline Numbers sum_leading(const Numbers& x, std::size_t columns) {
  Numbers y(columns, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) y[i % columns] += x[i];
  return y;
}

inline Numbers linear(const Numbers& x, const Numbers& w, const Numbers* bias, std::size_t k) {
  const std::size_t m = x.size() / k, n = w.size() / k;
  Numbers y(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = bias != nullptr ? (*bias)[j] : 0;
      for (std::size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * n + j];
      y[i * n + j] = sum;
    }
  }
  return y;
}

inline Numbers gelu(const Numbers& x) {
  Numbers y = x;
  for (double& v : y)
    v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  return y;
}

inline Numbers layer_norm(const Numbers& x, const Numbers& gamma, const Numbers& beta,
                          double epsilon) {
  const std::size_t h = gamma.size();
  Numbers y(x.size());
  for (std::size_t row = 0; row < x.size(); row += h) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < h; ++c) mean += x[row + c] / static_cast<double>(h);
    for (std::size_t c = 0; c < h; ++c)
      variance += (x[row + c] - mean) * (x[row + c] - mean) / static_cast<double>(h);
    for (std::size_t c = 0; c < h; ++c)
      y[row + c] = (x[row + c] - mean) / std::sqrt(variance + epsilon) * gamma[c] + beta[c];
  }
  return y;
}

inline Numbers attention(const Numbers& qkv, const Shape& shape, std::int64_t head_dim) {
  const std::int64_t batch = shape[0], sequence = shape[1], width = shape[3];
  Numbers y(static_cast<std::size_t>(batch * sequence * width), 0.0);
  const auto at = [&](std::int64_t b, std::int64_t s, int which, std::int64_t c) {
    return qkv[static_cast<std::size_t>(((b * sequence + s) * 3 + which) * width + c)];
  };
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t head = 0; head < width; head += head_dim) {
      for (std::int64_t i = 0; i < sequence; ++i) {
        Numbers weights;
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t c = head; c < head + head_dim; ++c)
            score += at(b, i, 0, c) * at(b, j, 1, c);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_dim))));
          sum += weights.back();
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t c = head; c < head + head_dim; ++c) {
            y[static_cast<std::size_t>((b * sequence + i) * width + c)] +=
                weights[static_cast<std::size_t>(j)] / sum * at(b, j, 2, c);
          }
        }
      }
    }
  }
  return y;
}

inline Numbers cross_attention(const Numbers& q, const Numbers& k, const Numbers& v,
                               const Shape& q_shape, const Shape& k_shape, std::int64_t head_dim) {
  const auto batch = static_cast<std::size_t>(q_shape.front()),
             width = static_cast<std::size_t>(q_shape.back()),
             head = static_cast<std::size_t>(head_dim);
  const std::size_t queries = q.size() / (batch * width),
                    keys = k.size() / (static_cast<std::size_t>(k_shape.front()) * width);
  Numbers y(q.size(), 0.0);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t column = 0; column < width; column += head) {
      for (std::size_t i = 0; i < queries; ++i) {
        Numbers weights;
        double sum = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          double score = 0;
          for (std::size_t c = column; c < column + head; ++c)
            score += q[(b * queries + i) * width + c] * k[(b * keys + j) * width + c];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_dim))));
          sum += weights.back();
        }
        for (std::size_t j = 0; j < keys; ++j) {
          for (std::size_t c = column; c < column + head; ++c)
            y[(b * queries + i) * width + c] += weights[j] / sum * v[(b * keys + j) * width + c];
        }
      }
    }
  }
  return y;
}

inline Numbers sigmoid(const Numbers& x) {
  Numbers y = x;
  for (double& v : y) v = 1 / (1 + std::exp(-v));
  return y;
}

inline Numbers multiply(const Numbers& a, const Numbers& b) {
  Numbers y = a;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= b[i];
  return y;
}

inline Numbers convolution(const Numbers& x, const Numbers& w, const Numbers* bias, const Shape& xs,
                           const Shape& ws, std::int64_t stride, std::int64_t padding) {
  const std::int64_t height = (xs[1] + 2 * padding - ws[0]) / stride + 1,
                     width = (xs[2] + 2 * padding - ws[1]) / stride + 1;
  Numbers y;
  for (std::int64_t b = 0; b < xs[0]; ++b) {
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        for (std::int64_t n = 0; n < ws[3]; ++n) {
          double sum = bias != nullptr ? (*bias)[static_cast<std::size_t>(n)] : 0;
          for (std::int64_t p = 0; p < ws[0]; ++p) {
            for (std::int64_t q = 0; q < ws[1]; ++q) {
              const std::int64_t row = i * stride + p - padding, column = j * stride + q - padding;
              if (row < 0 || row >= xs[1] || column < 0 || column >= xs[2]) continue;
              for (std::int64_t c = 0; c < xs[3]; ++c) {
                sum +=
                    x[static_cast<std::size_t>(((b * xs[1] + row) * xs[2] + column) * xs[3] + c)] *
                    w[static_cast<std::size_t>(((p * ws[1] + q) * ws[2] + c) * ws[3] + n)];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

inline Numbers group_norm(const Numbers& x, const Numbers& gamma, const Numbers& beta,
                          std::size_t batch, std::size_t group_size, double epsilon) {
  const std::size_t channels = gamma.size(), positions = x.size() / (batch * channels);
  Numbers y(x.size());
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t group = 0; group < channels; group += group_size) {
      const double count = static_cast<double>(positions * group_size);
      const auto for_elements = [&](auto body) {
        for (std::size_t p = 0; p < positions; ++p)
          for (std::size_t c = group; c < group + group_size; ++c)
            body((b * positions + p) * channels + c, c);
      };
      double mean = 0, variance = 0;
      for_elements([&](std::size_t at, std::size_t) { mean += x[at] / count; });
      for_elements([&](std::size_t at, std::size_t) {
        variance += (x[at] - mean) * (x[at] - mean) / count;
      });
      for_elements([&](std::size_t at, std::size_t c) {
        y[at] = (x[at] - mean) / std::sqrt(variance + epsilon) * gamma[c] + beta[c];
      });
    }
  }
  return y;
}

inline Numbers upsample(const Numbers& x, const Shape& shape, std::int64_t factor) {
  Numbers y;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t i = 0; i < factor * shape[1]; ++i) {
      for (std::int64_t j = 0; j < factor * shape[2]; ++j) {
        for (std::int64_t c = 0; c < shape[3]; ++c)
          y.push_back(x[static_cast<std::size_t>(
              ((b * shape[1] + i / factor) * shape[2] + j / factor) * shape[3] + c)]);
      }
    }
  }
  return y;
}

inline Numbers concat(const Numbers& a, const Numbers& b, std::size_t a_columns,
                      std::size_t b_columns) {
  Numbers y;
  for (std::size_t row = 0; row < a.size() / a_columns; ++row) {
    for (std::size_t c = 0; c < a_columns; ++c) y.push_back(a[row * a_columns + c]);
    for (std::size_t c = 0; c < b_columns; ++c) y.push_back(b[row * b_columns + c]);
  }
  return y;
}

inline Numbers add_channels(const Numbers& x, const Numbers& t, std::size_t batch) {
  const std::size_t channels = t.size() / batch, sample = x.size() / batch;
  Numbers y = x;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += t[i / sample * channels + i % channels];
  return y;
}

inline Numbers squared_error(const Numbers& x, const Numbers& target, double scale) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - target[i]) * (x[i] - target[i]);
  return {scale * sum};
}

inline Numbers embedding(const Numbers& table, const Numbers& ids, std::size_t width) {
  Numbers y;
  for (const double id : ids) {
    for (std::size_t c = 0; c < width; ++c)
      y.push_back(table[static_cast<std::size_t>(id) * width + c]);
  }
  return y;
}

inline Numbers cross_entropy(const Numbers& logits, const Numbers& targets, const Numbers* weights,
                             double scale) {
  const std::size_t columns = logits.size() / targets.size();
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += std::exp(logits[row * columns + c]);
    const double weight = weights != nullptr ? (*weights)[row] : 1;
    loss +=
        weight * (std::log(sum) - logits[row * columns + static_cast<std::size_t>(targets[row])]);
  }
  return {scale * loss};
}

}  // namespace reference

/// One forward op. `shapes` are those of the inputs.
inline Numbers reference_run(const Op& op, const std::vector<const Numbers*>& in,
                             const std::vector<Shape>& shapes) {
  const auto last = [&](std::size_t i) { return static_cast<std::size_t>(shapes[i].back()); };
  switch (op.kind) {
    case OpKind::kAdd: return reference::add(*in[0], *in[1]);
    case OpKind::kLinear:
      return reference::linear(*in[0], *in[1], in.size() == 3 ? in[2] : nullptr, last(0));
    case OpKind::kGelu: return reference::gelu(*in[0]);
    case OpKind::kLayerNorm:
      return reference::layer_norm(*in[0], *in[1], *in[2], op.real("epsilon"));
    case OpKind::kAttention: return reference::attention(*in[0], shapes[0], op.integer("head_dim"));
    case OpKind::kEmbedding: return reference::embedding(*in[0], *in[1], last(0));
    case OpKind::kCrossEntropy:
      return reference::cross_entropy(*in[0], *in[1], in.size() == 3 ? in[2] : nullptr,
                                      op.real("scale"));
    case OpKind::kSilu: return reference::multiply(*in[0], reference::sigmoid(*in[0]));
    case OpKind::kSigmoid: return reference::sigmoid(*in[0]);
    case OpKind::kMultiply: return reference::multiply(*in[0], *in[1]);
    case OpKind::kConvolution:
      return reference::convolution(*in[0], *in[1], in.size() == 3 ? in[2] : nullptr, shapes[0],
                                    shapes[1], op.integer("stride"), op.integer("padding"));
    case OpKind::kGroupNorm:
      return reference::group_norm(
          *in[0], *in[1], *in[2], static_cast<std::size_t>(shapes[0].front()),
          static_cast<std::size_t>(op.integer("group_size")), op.real("epsilon"));
    case OpKind::kUpsample: return reference::upsample(*in[0], shapes[0], op.integer("factor"));
    case OpKind::kConcat: return reference::concat(*in[0], *in[1], last(0), last(1));
    case OpKind::kAddChannels:
      return reference::add_channels(*in[0], *in[1], static_cast<std::size_t>(shapes[0].front()));
    case OpKind::kCrossAttention:
      return reference::cross_attention(*in[0], *in[1], *in[2], shapes[0], shapes[1],
                                        op.integer("head_dim"));
    case OpKind::kSquaredError: return reference::squared_error(*in[0], *in[1], op.real("scale"));
    case OpKind::kSumLeading: {
      std::int64_t columns = 1;
      for (std::size_t d = static_cast<std::size_t>(op.integer("dimensions")); d < shapes[0].size();
           ++d)
        columns *= shapes[0][d];
      return reference::sum_leading(*in[0], static_cast<std::size_t>(columns));
    }
    default: throw_error(ErrorCode::kInternal, "{} has no reference", to_string(op));
  }
}

/// All values of a forward graph from its inputs and parameters.
inline std::map<ValueId, Numbers> reference_evaluate(const Graph& graph,
                                                     std::map<ValueId, Numbers> values) {
  for (const Node& node : graph.nodes()) {
    if (node.pass != Pass::kForward) break;
    std::vector<const Numbers*> inputs;
    std::vector<Shape> shapes;
    for (const ValueId input : node.inputs) {
      inputs.push_back(&values.at(input));
      shapes.push_back(graph.value(input).type.shape);
    }
    values[node.outputs[0]] = reference_run(node.op, inputs, shapes);
  }
  return values;
}

}  // namespace weft::test
