// Rows of a table, and its gradient: rows added in index order.
#include <cstring>

#include "core/base/error.h"
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

void check_id(const Op& op, std::int32_t id, std::int64_t index, std::int64_t rows) {
  if (id >= 0 && id < rows) return;
  throw_error(ErrorCode::kInvalidArgument,
              "{}: the id {} at position {} is outside the table of {} rows", to_string(op), id,
              index, rows);
}

void run_embedding(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t rows = run.shape(0)[0], width = run.shape(0)[1], tokens = run.size(1);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t id = run.ids(1)[t];
    check_id(run.op, id, t, rows);
    std::memcpy(run.out_floats() + t * width, run.floats(0) + id * width, width * sizeof(float));
  }
}

void run_embedding_grad(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.op.integer("rows"), tokens = run.size(0), width = run.columns(1);
  float* table = run.out_floats();
  if (!run.accumulate[0]) std::memset(table, 0, rows * width * sizeof(float));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t id = run.ids(0)[t];
    check_id(run.op, id, t, rows);
    float* row = table + id * width;
    context.vector.add_row(row, run.floats(1) + t * width, row, 1, width);
  }
}

}  // namespace

const CpuOpKernel kEmbeddingKernel{run_embedding};
const CpuOpKernel kEmbeddingGradKernel{.run = run_embedding_grad, .accumulates = true};

}  // namespace weft
