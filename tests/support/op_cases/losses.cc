// Cases of cross-entropy and squared error.
#include <algorithm>
#include <cmath>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

/// Largest logit of a row and the sum of exp(logit - largest), which cannot overflow.
struct RowStatistics {
  double largest = 0;
  double sum = 0;
};
RowStatistics statistics_of(const Numbers& logits, std::size_t row, std::size_t columns) {
  const double* const x = logits.data() + row * columns;
  RowStatistics result{*std::max_element(x, x + columns), 0};
  for (std::size_t c = 0; c < columns; ++c) result.sum += std::exp(x[c] - result.largest);
  return result;
}

Numbers reference_cross_entropy(const ReferenceRun& run) {
  const Numbers &logits = run.in(0), &targets = run.in(1), *const weights = run.optional_in(2);
  const std::size_t columns = run.last(0);
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const auto [largest, sum] = statistics_of(logits, row, columns);
    const double target = logits[row * columns + static_cast<std::size_t>(targets[row])];
    loss += (weights != nullptr ? (*weights)[row] : 1) * (std::log(sum) + largest - target);
  }
  return {run.op.real("scale") * loss};
}

Numbers reference_cross_entropy_grad(const ReferenceRun& run) {
  const Numbers &logits = run.in(0), &targets = run.in(1), *const weights = run.optional_in(2);
  const std::size_t columns = run.last(0);
  Numbers dlogits;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const double factor = run.op.real("scale") * (weights != nullptr ? (*weights)[row] : 1);
    const auto [largest, sum] = statistics_of(logits, row, columns);
    for (std::size_t c = 0; c < columns; ++c) {
      const double onehot = static_cast<double>(c) == targets[row] ? 1 : 0;
      dlogits.push_back(factor * (std::exp(logits[row * columns + c] - largest) / sum - onehot));
    }
  }
  return dlogits;
}

Numbers reference_squared_error(const ReferenceRun& run) {
  double sum = 0;
  for (std::size_t i = 0; i < run.in(0).size(); ++i)
    sum += std::pow(run.in(0)[i] - run.in(1)[i], 2);
  return {run.op.real("scale") * sum};
}

}  // namespace

void add_loss_cases(OpCases& to) {
  to.references[OpKind::kCrossEntropy] = reference_cross_entropy;
  to.references[OpKind::kCrossEntropyGrad] = reference_cross_entropy_grad;
  to.references[OpKind::kSquaredError] = reference_squared_error;
  // The longest row fits into a GPU's shared memory in bf16, but not in f32.
  for (const Shape& logits : {Shape{3, 1, 3}, Shape{3, 1, 1001}, Shape{3, 1, 9000}, Shape{3, 2, 71},
                              Shape{3, 5, 10}, Shape{3, 1, 60001}}) {
    const InputCase targets{{logits[0], logits[1]}, Holds::kIds},
        weights{{logits[0], logits[1]}, Holds::kF32};
    const auto add = [&](OpKind kind, std::vector<InputCase> inputs, double shift,
                         std::vector<std::size_t> f32_outputs) {
      to.add({.op = {kind, {{"scale", 0.25}}},
              .inputs = std::move(inputs),
              .ids_below = logits.back(),
              .size = 4,
              .shift = shift,
              .f32_outputs = std::move(f32_outputs)});
    };
    add(OpKind::kCrossEntropy, {{logits}, targets}, 3, {0});
    add(OpKind::kCrossEntropy, {{logits}, targets, weights}, 0, {0});
    add(OpKind::kCrossEntropyGrad, {{logits}, targets}, 3, {});
    add(OpKind::kCrossEntropyGrad, {{logits}, targets, weights}, 0, {});
    add(OpKind::kCrossEntropyWithGrad, {{logits}, targets}, 3, {1});
    add(OpKind::kCrossEntropyWithGrad, {{logits}, targets, weights}, 0, {1});
  }
  for (const Shape& s : {Shape{3, 5, 7}, Shape{4, 9, 64}}) {
    const InputCase target{s, Holds::kF32};
    to.add({.op = {OpKind::kSquaredError, {{"scale", 0.01}}},
            .inputs = {{s}, target},
            .size = 10,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kSquaredErrorGrad, {{"scale", 0.5}}}, .inputs = {{s}, target}});
  }
}

}  // namespace weft::test
