// Cases of sums, products, activations and their gradients, and sums of rows.
#include <cmath>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_add(const ReferenceRun& run) {
  Numbers y = run.in(0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += run.in(1)[i % run.in(1).size()];
  return y;
}

Numbers reference_add_channels(const ReferenceRun& run) {
  const Numbers& t = run.in(1);
  Numbers y = run.in(0);
  const std::size_t channels = t.size() / run.batch(), sample = y.size() / run.batch();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += t[i / sample * channels + i % channels];
  return y;
}

Numbers reference_multiply(const ReferenceRun& run) {
  Numbers y = run.in(0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= run.in(1)[i];
  return y;
}

Numbers reference_gelu(const ReferenceRun& run) {
  Numbers y = run.in(0);
  for (double& v : y)
    v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  return y;
}

Numbers reference_silu(const ReferenceRun& run) {
  Numbers y = run.in(0);
  for (double& v : y) v *= 1 / (1 + std::exp(-v));
  return y;
}

Numbers reference_sigmoid(const ReferenceRun& run) {
  Numbers y = run.in(0);
  for (double& v : y) v = 1 / (1 + std::exp(-v));
  return y;
}

Op sum_leading(std::int64_t dimensions) {
  return {OpKind::kSumLeading, {{"dimensions", dimensions}}};
}

}  // namespace

void add_elementwise_cases(OpCases& to) {
  to.references[OpKind::kAdd] = reference_add;
  to.references[OpKind::kAddChannels] = reference_add_channels;
  to.references[OpKind::kMultiply] = reference_multiply;
  to.references[OpKind::kGelu] = reference_gelu;
  to.references[OpKind::kSilu] = reference_silu;
  to.references[OpKind::kSigmoid] = reference_sigmoid;
  for (const Shape& s : {Shape{3, 5, 7}, Shape{3, 5, 19}, Shape{4, 9, 64}}) {
    for (const OpKind kind : {OpKind::kGelu, OpKind::kSilu, OpKind::kSigmoid})
      to.add({.op = {kind, {}}, .inputs = {{s}}});
    for (const OpKind kind : {OpKind::kAdd, OpKind::kMultiply, OpKind::kGeluGrad, OpKind::kSiluGrad,
                              OpKind::kSigmoidGrad})
      to.add({.op = {kind, {}}, .inputs = {{s}, {s}}});
    to.add({.op = {OpKind::kAdd, {}}, .inputs = {{s}, {{s[1], s[2]}}}});
    to.add({.op = {OpKind::kAddChannels, {}}, .inputs = {{s}, {{s[0], s[2]}}}});
    to.add({.op = {OpKind::kSumPositions, {}}, .inputs = {{s}}, .size = 4});
    to.add({.op = sum_leading(1), .inputs = {{s}}, .size = 4, .f32_outputs = {0}});
    to.add({.op = sum_leading(2), .inputs = {{s}}, .size = 8, .f32_outputs = {0}});
  }
  to.add({.op = {OpKind::kAddChannels, {}}, .inputs = {{{3, 4, 5, 6}}, {{3, 6}}}});
  to.add({.op = {OpKind::kSumPositions, {}}, .inputs = {{{3, 4, 5, 6}}}, .size = 4});
  to.add({.op = sum_leading(2), .inputs = {{{4, 5, 3, 6}}}, .size = 8, .f32_outputs = {0}});
  // Several splits of the rows and several tiles of the columns.
  to.add({.op = sum_leading(2), .inputs = {{{7, 101, 9}}}, .size = 30, .f32_outputs = {0}});
  to.add({.op = sum_leading(1), .inputs = {{{131, 344}}}, .size = 20, .f32_outputs = {0}});
}

}  // namespace weft::test
