// Cases of embeddings and their gradients.
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_embedding(const ReferenceRun& run) {
  const std::size_t width = run.last(0);
  Numbers y;
  for (const double id : run.in(1)) {
    for (std::size_t c = 0; c < width; ++c)
      y.push_back(run.in(0)[static_cast<std::size_t>(id) * width + c]);
  }
  return y;
}

}  // namespace

void add_embedding_cases(OpCases& to) {
  to.references[OpKind::kEmbedding] = reference_embedding;
  const auto grad = [](std::int64_t rows) { return Op{OpKind::kEmbeddingGrad, {{"rows", rows}}}; };
  for (const std::int64_t columns : {7, 16, 23, 328}) {
    to.add({.op = {OpKind::kEmbedding, {}},
            .inputs = {{{11, columns}}, {{3, 5}, Holds::kIds}},
            .ids_below = 11});
    to.add({.op = grad(11),
            .inputs = {{{3, 15}, Holds::kIds}, {{3, 15, columns}}},
            .ids_below = 11,
            .size = 6,
            .f32_outputs = {0}});
  }
  // Rows in slices, with padding as the last row.
  const auto slice = [](OpKind kind) {
    return Op{
        kind,
        {{"first", std::int64_t{0}}, {"count", std::int64_t{12}}, {"rows", std::int64_t{11}}}};
  };
  for (const std::int64_t columns : {7, 16, 328}) {
    to.add({.op = slice(OpKind::kEmbeddingSlice),
            .inputs = {{{12, columns}}, {{3, 5}, Holds::kIds}},
            .ids_below = 11});
    to.add({.op = slice(OpKind::kEmbeddingSliceGrad),
            .inputs = {{{3, 15}, Holds::kIds}, {{3, 15, columns}}},
            .ids_below = 11,
            .size = 6,
            .f32_outputs = {0}});
  }
  // More tokens than one block can sort.
  to.add({.op = grad(300),
          .inputs = {{{1030}, Holds::kIds}, {{1030, 3}}},
          .ids_below = 300,
          .size = 9,
          .f32_outputs = {0}});
}

}  // namespace weft::test
