// Cross entropy and squared error.
#include <cmath>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_cross_entropy(const ReferenceRun& run) {
  const Numbers &logits = run.in(0), &targets = run.in(1), *const weights = run.optional_in(2);
  const std::size_t columns = run.last(0);
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += std::exp(logits[row * columns + c]);
    const double target = logits[row * columns + static_cast<std::size_t>(targets[row])];
    loss += (weights != nullptr ? (*weights)[row] : 1) * (std::log(sum) - target);
  }
  return {run.op.real("scale") * loss};
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
  to.references[OpKind::kSquaredError] = reference_squared_error;
  for (const Shape& logits :
       {Shape{3, 1, 3}, Shape{3, 1, 1001}, Shape{3, 1, 9000}, Shape{3, 2, 71}, Shape{3, 5, 10}}) {
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
  }
  // Rows in slices, with padding: within a slice, and one that is padding only.
  struct Slices {
    Shape logits;
    std::int64_t width, columns;
  };
  for (const auto& [logits, width, columns] :
       {Slices{{3, 1, 6}, 2, 6}, Slices{{3, 2, 1008}, 336, 1001}, Slices{{3, 5, 12}, 4, 7}}) {
    const Shape tokens{logits[0], logits[1]};
    const InputCase targets{tokens, Holds::kIds}, weights{tokens, Holds::kF32};
    const InputCase kept{{tokens[0], tokens[1], 3}, Holds::kF32};
    const auto with = [&, columns = columns, count = logits.back()](std::string name,
                                                                    Attribute value) {
      return std::vector<std::pair<std::string, Attribute>>{{"first", std::int64_t{0}},
                                                            {"count", count},
                                                            {"columns", columns},
                                                            {std::move(name), value}};
    };
    to.add({.op = {OpKind::kCrossEntropyMoments, with("slice_width", width)},
            .inputs = {{logits}, targets},
            .ids_below = columns,
            .size = static_cast<double>(width),
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kCrossEntropyStatistics, {}},
            .inputs = {{{tokens[0], tokens[1], logits.back() / width, 3}, Holds::kF32}},
            .size = 8,
            .positive = true,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kCrossEntropyOfStatistics, {{"scale", 0.25}}},
            .inputs = {kept},
            .size = 4,
            .positive = true,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kCrossEntropyOfStatistics, {{"scale", 0.25}}},
            .inputs = {kept, weights},
            .size = 4,
            .positive = true,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kCrossEntropyApplyGrad, with("scale", 0.25)},
            .inputs = {{logits}, targets, kept},
            .ids_below = columns,
            .size = 8,
            .positive = true});
    to.add({.op = {OpKind::kCrossEntropyApplyGrad, with("scale", 0.25)},
            .inputs = {{logits}, targets, kept, weights},
            .ids_below = columns,
            .size = 8,
            .positive = true});
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
