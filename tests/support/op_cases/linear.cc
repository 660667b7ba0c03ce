// Cases of linear, its gradients and the fused ops.
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_linear(const ReferenceRun& run) {
  const Numbers &x = run.in(0), &w = run.in(1), *const bias = run.optional_in(2);
  const std::size_t k = run.last(0), m = x.size() / k, n = w.size() / k;
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

Numbers reference_linear_input_grad(const ReferenceRun& run) {
  const Numbers &dy = run.in(0), &w = run.in(1);
  const std::size_t k = run.shapes[1].front();
  const std::size_t n = w.size() / k, m = dy.size() / n;
  Numbers dx(m * k, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) dx[i * k + l] += dy[i * n + j] * w[l * n + j];
    }
  }
  return dx;
}

Numbers reference_linear_weight_grad(const ReferenceRun& run) {
  const Numbers &x = run.in(0), &dy = run.in(1);
  const std::size_t k = run.last(0), m = x.size() / k, n = dy.size() / m;
  Numbers dw(k * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) dw[l * n + j] += x[i * k + l] * dy[i * n + j];
    }
  }
  return dw;
}

}  // namespace

void add_linear_cases(OpCases& to) {
  to.references[OpKind::kLinear] = reference_linear;
  to.references[OpKind::kLinearInputGrad] = reference_linear_input_grad;
  to.references[OpKind::kLinearWeightGrad] = reference_linear_weight_grad;
  const auto add = [&](OpKind kind, std::vector<InputCase> inputs,
                       std::vector<std::size_t> f32_outputs = {}) {
    to.add({.op = {kind, {}},
            .inputs = std::move(inputs),
            .size = 8,
            .f32_outputs = std::move(f32_outputs)});
  };
  const auto add_gelu = [&](std::int64_t keep, std::vector<InputCase> inputs) {
    to.add({.op = {OpKind::kLinearGelu, {{"keep", keep}}}, .inputs = std::move(inputs), .size = 8});
  };
  for (const Shape& s : {Shape{3, 5, 7}, Shape{4, 9, 64}, Shape{3, 7, 33}}) {
    const std::int64_t a = s[0], b = s[1], k = s[2];
    add(OpKind::kLinear, {{s}, {{k, 3, 8}}, {{3, 8}}});
    add(OpKind::kLinear, {{s}, {{k, 21}}, {{21}}});
    add(OpKind::kLinear, {{s}, {{k, 5}}});
    add(OpKind::kLinearInputGrad, {{s}, {{6, k}}});
    add(OpKind::kLinearWeightGrad, {{s}, {{a, b, 3, 2}}}, {0});
    for (const std::int64_t keep : {0, 1}) {
      add_gelu(keep, {{s}, {{k, 3, 8}}, {{3, 8}}});
      add_gelu(keep, {{s}, {{k, 13}}, {{13}}});
    }
    add(OpKind::kLinearAdd, {{s}, {{k, 3, 8}}, {{a, b, 3, 8}}, {{3, 8}}});
    add(OpKind::kLinearAdd, {{s}, {{k, 5}}, {{a, b, 5}}});
    add(OpKind::kLinearInputGradGelu, {{s}, {{16, k}}, {{a, b, 16}}});
    add(OpKind::kLinearInputGradGelu, {{s}, {{6, k}}, {{a, b, 6}}});
    add(OpKind::kLinearWeightGradSum, {{s}, {{a, b, 3, 2}}}, {0, 1});
    add(OpKind::kLinearWeightGradSum, {{s}, {{a, b, 8}}}, {0, 1});
  }
  add(OpKind::kLinearInputGrad, {{{4, 5, 3, 6}}, {{8, 3, 6}}});
  add(OpKind::kLinearInputGradGelu, {{{4, 5, 3, 6}}, {{8, 3, 6}}, {{4, 5, 8}}});
  add_gelu(0, {{{4, 8}}, {{8, 6}}, {{6}}});
}

}  // namespace weft::test
