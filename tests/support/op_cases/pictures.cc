// Cases of up-sampling and ranges of the last dimension.
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_upsample(const ReferenceRun& run) {
  const Shape& s = run.shapes[0];
  const std::int64_t factor = run.op.integer("factor");
  Numbers y;
  for (std::int64_t b = 0; b < s[0]; ++b) {
    for (std::int64_t i = 0; i < factor * s[1]; ++i) {
      for (std::int64_t j = 0; j < factor * s[2]; ++j) {
        for (std::int64_t c = 0; c < s[3]; ++c)
          y.push_back(run.in(0)[((b * s[1] + i / factor) * s[2] + j / factor) * s[3] + c]);
      }
    }
  }
  return y;
}

Numbers reference_concat(const ReferenceRun& run) {
  Numbers y;
  for (std::size_t row = 0; row < run.in(0).size() / run.last(0); ++row) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      for (std::size_t c = 0; c < run.last(i); ++c) y.push_back(run.in(i)[row * run.last(i) + c]);
    }
  }
  return y;
}

}  // namespace

void add_picture_cases(OpCases& to) {
  to.references[OpKind::kUpsample] = reference_upsample;
  to.references[OpKind::kConcat] = reference_concat;
  for (const std::int64_t channels : {3, 7, 16}) {
    to.add({.op = {OpKind::kUpsample, {{"factor", std::int64_t{2}}}},
            .inputs = {{{2, 3, 5, channels}}}});
    to.add({.op = {OpKind::kUpsampleGrad, {{"factor", std::int64_t{3}}}},
            .inputs = {{{3, 6, 9, channels}}},
            .size = 4});
  }
  for (const Shape& s : {Shape{3, 5, 7}, Shape{4, 9, 64}}) {
    to.add({.op = {OpKind::kConcat, {}}, .inputs = {{s}, {{s[0], s[1], s[2] / 2}}}});
    for (const std::int64_t dim : {0, 1, 2})
      to.add({.op = {OpKind::kSlice, {{"dim", dim}, {"begin", s[dim] / 4}, {"size", s[dim] / 2}}},
              .inputs = {{s}}});
  }
  to.add({.op = {OpKind::kConcat, {}}, .inputs = {{{2, 3, 5, 7}}, {{2, 3, 5, 19}}}});
  to.add({.op = {OpKind::kConcat, {}}, .inputs = {{{8, 16}}, {{8, 48}}, {{8, 1}}, {{8, 32}}}});
}

}  // namespace weft::test
