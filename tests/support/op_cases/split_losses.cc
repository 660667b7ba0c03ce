// Cases of a cross-entropy whose rows split_graph() (mesh/layouts) has split over devices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

/// Logits columns of a token on a device. `real` columns are not padding. `width` is a slice's
/// width.
struct Rows {
  std::size_t first, count, real, width, slices;

  explicit Rows(const Op& op)
      : first(op.integer("first")),
        count(op.integer("count")),
        real(std::clamp<std::int64_t>(op.integer("columns") - op.integer("first"), 0,
                                      op.integer("count"))),
        width(op.integer("slice_width")),
        slices(count / width) {}
};

double weight_of(const Numbers* weights, std::size_t token) {
  return weights == nullptr ? 1 : (*weights)[token];
}

Numbers reference_moments(const ReferenceRun& run) {
  const Rows rows(run.op);
  const Numbers &logits = run.in(0), &targets = run.in(1);
  Numbers moments;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::size_t begin = 0; begin < rows.count; begin += rows.width) {
      const std::size_t end = std::max(begin, std::min(begin + rows.width, rows.real));
      const auto x = logits.begin() + static_cast<std::ptrdiff_t>(t * rows.count);
      double top = -std::numeric_limits<double>::infinity(), sum = 0, target = 0;
      for (std::size_t c = begin; c < end; ++c) top = std::max(top, x[c]);
      for (std::size_t c = begin; c < end; ++c) {
        sum += std::exp(x[c] - top);
        if (static_cast<double>(rows.first + c) == targets[t]) target = x[c];
      }
      moments.insert(moments.end(), {top, sum, target});
    }
  }
  return moments;
}

Numbers reference_statistics(const ReferenceRun& run) {
  const Numbers& moments = run.in(0);
  const std::size_t each = 3 * run.shapes[0][run.shapes[0].size() - 2];
  Numbers statistics;
  for (std::size_t row = 0; row < moments.size(); row += each) {
    double top = moments[row], sum = 0, target = 0;
    for (std::size_t i = row; i < row + each; i += 3) top = std::max(top, moments[i]);
    for (std::size_t i = row; i < row + each; i += 3) {
      sum += moments[i + 1] * std::exp(moments[i] - top);
      target += moments[i + 2];
    }
    statistics.insert(statistics.end(), {top, sum, target});
  }
  return statistics;
}

Numbers reference_of_statistics(const ReferenceRun& run) {
  const Numbers& of = run.in(0);
  double loss = 0;
  for (std::size_t t = 0; t < of.size() / 3; ++t)
    loss +=
        weight_of(run.optional_in(1), t) * (of[3 * t] + std::log(of[3 * t + 1]) - of[3 * t + 2]);
  return {run.op.real("scale") * loss};
}

Numbers reference_apply_grad(const ReferenceRun& run) {
  const Numbers &logits = run.in(0), &targets = run.in(1), &statistics = run.in(2);
  const std::size_t columns = run.last(0);
  Numbers dlogits;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const double factor = run.op.real("scale") * weight_of(run.optional_in(3), t);
    for (std::size_t c = 0; c < columns; ++c) {
      const auto column = static_cast<std::int64_t>(c) + run.op.integer("first");
      const double share =
          std::exp(logits[t * columns + c] - statistics[3 * t]) / statistics[3 * t + 1];
      const double onehot = static_cast<double>(column) == targets[t] ? 1 : 0;
      dlogits.push_back(column < run.op.integer("columns") ? factor * (share - onehot) : 0);
    }
  }
  return dlogits;
}

Numbers reference_numerators(const ReferenceRun& run) {
  const Rows rows(run.op);
  const Numbers &logits = run.in(0), &moments = run.in(1);
  Numbers numerators;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double top = moments[3 * (i / rows.width)];
    numerators.push_back(i % rows.count < rows.real ? std::exp(logits[i] - top) : 0);
  }
  return numerators;
}

/// Returns the element of W for a feature and a column of the vocabulary.
double element(const ReferenceRun& run, std::size_t weight, std::size_t feature,
               std::size_t column) {
  const bool transposed = run.op.integer("transposed") != 0;
  return run.in(weight)[transposed ? column * run.last(weight) + feature
                                   : feature * run.last(weight) + column];
}
std::size_t features_of(const ReferenceRun& run, std::size_t weight) {
  return run.op.integer("transposed") != 0 ? run.last(weight) : run.shapes[weight].front();
}

Numbers reference_slice_input_grad(const ReferenceRun& run) {
  const std::size_t columns = run.last(0), width = run.op.integer("slice_width");
  const std::size_t features = features_of(run, 1);
  const Numbers& numerators = run.in(0);
  Numbers products;
  for (std::size_t begin = 0; begin < numerators.size(); begin += width) {
    for (std::size_t f = 0; f < features; ++f) {
      double sum = 0;
      for (std::size_t i = begin; i < begin + width; ++i)
        sum += numerators[i] * element(run, 1, f, i % columns);
      products.push_back(sum);
    }
  }
  return products;
}

Numbers reference_target_rows(const ReferenceRun& run) {
  const Rows rows(run.op);
  Numbers result;
  for (const double target : run.in(1)) {
    for (std::size_t k = 0; k < rows.slices; ++k) {
      const double begin = static_cast<double>(rows.first + k * rows.width);
      const bool owns = target >= begin && target < begin + static_cast<double>(rows.width);
      for (std::size_t f = 0; f < features_of(run, 0); ++f) {
        result.push_back(owns ? element(run, 0, f, static_cast<std::size_t>(target) - rows.first)
                              : 0);
      }
    }
  }
  return result;
}

Numbers reference_combined(const ReferenceRun& run) {
  const Numbers &moments = run.in(0), &statistics = run.in(1), &products = run.in(2),
                &rows = run.in(3);
  const std::size_t width = run.last(3), tokens = statistics.size() / 3;
  const std::size_t slices = moments.size() / statistics.size();
  Numbers dx(tokens * width, 0.0);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::size_t slice = i / width, t = slice / slices;
    const double share = std::exp(moments[3 * slice] - statistics[3 * t]) / statistics[3 * t + 1];
    dx[t * width + i % width] +=
        run.op.real("scale") * weight_of(run.optional_in(4), t) * (share * products[i] - rows[i]);
  }
  return dx;
}

}  // namespace

void add_split_loss_cases(OpCases& to) {
  to.references[OpKind::kCrossEntropyMoments] = reference_moments;
  to.references[OpKind::kCrossEntropyStatistics] = reference_statistics;
  to.references[OpKind::kCrossEntropyOfStatistics] = reference_of_statistics;
  to.references[OpKind::kCrossEntropyApplyGrad] = reference_apply_grad;
  to.references[OpKind::kCrossEntropyNumerators] = reference_numerators;
  to.references[OpKind::kLinearSliceInputGrad] = reference_slice_input_grad;
  to.references[OpKind::kTargetRows] = reference_target_rows;
  to.references[OpKind::kCrossEntropyCombinedInputGrad] = reference_combined;
  // Padding within a slice, and a slice of padding only.
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
    const auto add = [&, columns = columns](Op op, std::vector<InputCase> inputs, double size,
                                            std::vector<std::size_t> f32_outputs = {},
                                            bool positive = false) {
      to.add({.op = std::move(op),
              .inputs = std::move(inputs),
              .ids_below = columns,
              .size = size,
              .positive = positive,
              .f32_outputs = std::move(f32_outputs)});
    };
    const std::int64_t slices = logits.back() / width, features = 9;
    const InputCase moments{{tokens[0], tokens[1], slices, 3}, Holds::kF32};
    add({OpKind::kCrossEntropyNumerators, with("slice_width", width)}, {{logits}, moments}, 16);
    for (const bool transposed : {false, true}) {
      const InputCase weight{transposed ? Shape{logits.back(), features}
                                        : Shape{features, logits.back()}};
      const std::pair<std::string, Attribute> order{"transposed", std::int64_t{transposed}};
      add({OpKind::kLinearSliceInputGrad, {{"slice_width", width}, order}}, {{logits}, weight},
          std::sqrt(static_cast<double>(width)), {0});
      Op rows{OpKind::kTargetRows, with("slice_width", width)};
      rows.attributes.push_back(order);
      add(std::move(rows), {weight, targets}, 1);
    }
    const Shape products{tokens[0], tokens[1], slices, features};
    const Op combine{OpKind::kCrossEntropyCombinedInputGrad, {{"scale", 0.25}}};
    const std::vector<InputCase> parts{moments, kept, {products, Holds::kF32}, {products}};
    add(combine, parts, 64, {}, true);
    std::vector<InputCase> with_weights = parts;
    with_weights.push_back(weights);
    add(combine, std::move(with_weights), 64, {}, true);
  }
}

}  // namespace weft::test
