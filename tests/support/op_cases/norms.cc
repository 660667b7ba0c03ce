// Cases of layer norm and group norm.
#include <cmath>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_layer_norm(const ReferenceRun& run) {
  const Numbers &x = run.in(0), &gamma = run.in(1), &beta = run.in(2);
  const std::size_t h = gamma.size();
  const double count = h;
  Numbers y(x.size());
  for (std::size_t row = 0; row < x.size(); row += h) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < h; ++c) mean += x[row + c] / count;
    for (std::size_t c = 0; c < h; ++c)
      variance += (x[row + c] - mean) * (x[row + c] - mean) / count;
    const double deviation = std::sqrt(variance + run.op.real("epsilon"));
    for (std::size_t c = 0; c < h; ++c)
      y[row + c] = (x[row + c] - mean) / deviation * gamma[c] + beta[c];
  }
  return y;
}

Numbers reference_group_norm(const ReferenceRun& run) {
  const Numbers &x = run.in(0), &gamma = run.in(1), &beta = run.in(2);
  const std::size_t channels = gamma.size(), positions = x.size() / (run.batch() * channels);
  const std::size_t group_size = run.op.integer("group_size");
  Numbers y(x.size());
  for (std::size_t b = 0; b < run.batch(); ++b) {
    for (std::size_t group = 0; group < channels; group += group_size) {
      const double count = positions * group_size;
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
      const double deviation = std::sqrt(variance + run.op.real("epsilon"));
      for_elements([&](std::size_t at, std::size_t c) {
        y[at] = (x[at] - mean) / deviation * gamma[c] + beta[c];
      });
    }
  }
  return y;
}

}  // namespace

void add_norm_cases(OpCases& to) {
  to.references[OpKind::kLayerNorm] = reference_layer_norm;
  to.references[OpKind::kGroupNorm] = reference_group_norm;
  const auto layer = [](OpKind kind) { return Op{kind, {{"epsilon", 1e-5}}}; };
  const auto add_gradients = [&](const Shape& x, double size) {
    const Shape row{x.back()};
    to.add({.op = layer(OpKind::kLayerNormInputGrad), .inputs = {{x}, {row}, {x}}, .shift = 2});
    to.add({.op = layer(OpKind::kLayerNormInputGradAdd),
            .inputs = {{x}, {row}, {x}, {x}},
            .shift = 2});
    to.add({.op = layer(OpKind::kLayerNormWeightGrad),
            .inputs = {{x}, {x}},
            .size = size,
            .shift = 2,
            .f32_outputs = {0, 1}});
    to.add({.op = layer(OpKind::kLayerNormGrad),
            .inputs = {{x}, {row}, {x}},
            .size = size,
            .shift = 2,
            .f32_outputs = {1, 2}});
    to.add({.op = layer(OpKind::kLayerNormGradAdd),
            .inputs = {{x}, {row}, {x}, {x}},
            .size = size,
            .shift = 2,
            .f32_outputs = {1, 2}});
  };
  // Rows that do and do not fit into a warp's registers; tiles of 8, 4, 2 and 1 rows in the
  // gradients.
  for (const Shape& x : {Shape{3, 5}, Shape{3, 64}, Shape{3, 301}, Shape{3, 2104}, Shape{5, 3},
                         Shape{3, 3, 37}, Shape{4, 5, 16}, Shape{3, 4104}}) {
    const Shape row{x.back()};
    to.add({.op = layer(OpKind::kLayerNorm), .inputs = {{x}, {row}, {row}}, .shift = 2});
    add_gradients(x, 4);
  }
  add_gradients({3, 67, 24}, 20);
  // More tiles than blocks; a row that does not fit into a GPU's shared memory.
  add_gradients({533, 8, 8}, 300);
  add_gradients({2, 20000}, 4);

  // Rows in slices.
  for (const auto& [x, width] : {std::pair{Shape{3, 12}, 4},
                                 {Shape{3, 128}, 64},
                                 {Shape{2, 3, 111}, 37},
                                 {Shape{4, 5, 2104}, 1052}}) {
    const Shape row{x.back()};
    Shape statistics(x.begin(), x.end() - 1), moments = statistics;
    statistics.push_back(2);
    moments.insert(moments.end(), {x.back() / width, 2});
    const InputCase kept{statistics, Holds::kF32};
    const Attribute slice_width = std::int64_t{width};
    to.add({.op = {OpKind::kLayerNormMoments, {{"slice_width", slice_width}}},
            .inputs = {{x}},
            .size = static_cast<double>(width),
            .shift = 2,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kLayerNormStatistics, {{"slice_width", slice_width}, {"epsilon", 1e-5}}},
            .inputs = {{moments, Holds::kF32}},
            .size = 4,
            .positive = true,
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kLayerNormApply, {}}, .inputs = {{x}, kept, {row}, {row}}, .size = 4});
    to.add({.op = {OpKind::kLayerNormGradientSums, {}},
            .inputs = {{x}, kept, {row}, {x}},
            .size = static_cast<double>(x.back()),
            .f32_outputs = {0}});
    to.add({.op = {OpKind::kLayerNormApplyInputGrad, {{"width", x.back()}}},
            .inputs = {{x}, kept, {row}, {x}, kept},
            .size = 8});
    to.add({.op = {OpKind::kLayerNormApplyWeightGrad, {}},
            .inputs = {{x}, kept, {x}},
            .size = 16,
            .f32_outputs = {0, 1}});
  }

  struct Groups {
    Shape x;
    std::int64_t size;
  };
  for (const auto& [x, size] :
       {Groups{{2, 3, 5, 6}, 3}, Groups{{3, 9, 16}, 8}, Groups{{2, 77, 80}, 40},
        Groups{{3, 5, 2, 16}, 4}, Groups{{2, 5, 3, 12}, 3}, Groups{{2, 301, 17}, 17}}) {
    const Shape row{x.back()};
    const std::vector<std::pair<std::string, Attribute>> groups{{"group_size", size},
                                                                {"epsilon", 1e-5}};
    to.add({.op = {OpKind::kGroupNorm, groups}, .inputs = {{x}, {row}, {row}}, .shift = 20});
    to.add({.op = {OpKind::kGroupNormInputGrad, groups},
            .inputs = {{x}, {row}, {x}},
            .size = 2,
            .shift = 1});
    to.add({.op = {OpKind::kGroupNormWeightGrad, groups},
            .inputs = {{x}, {x}},
            .size = 20,
            .shift = 1,
            .f32_outputs = {0, 1}});
  }
}

}  // namespace weft::test
