// Embedding, and its gradient, which adds rows in index order.
#include <cstring>
#include <optional>

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

// Embedding with table rows split over devices: core/ops/embedding_slice.cc.

/// Returns the row of this slice for the id; nullopt if another slice contains it.
std::optional<std::int64_t> row_here(const OpRun& run, std::int32_t id, std::int64_t index) {
  check_id(run.op, id, index, run.op.integer("rows"));
  const std::int64_t row = id - run.op.integer("first");
  if (row < 0 || row >= run.op.integer("count")) return std::nullopt;
  return row;
}

void run_embedding_slice(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t width = run.shape(0)[1];
  for (std::int64_t t = 0; t < run.size(1); ++t) {
    float* out = run.out_floats() + t * width;
    if (const auto row = row_here(run, run.ids(1)[t], t)) {
      std::memcpy(out, run.floats(0) + *row * width, width * sizeof(float));
    } else {
      std::memset(out, 0, width * sizeof(float));
    }
  }
}

void run_embedding_slice_grad(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t width = run.columns(1);
  float* table = run.out_floats();
  if (!run.accumulate[0]) std::memset(table, 0, run.op.integer("count") * width * sizeof(float));
  for (std::int64_t t = 0; t < run.size(0); ++t) {
    const auto row = row_here(run, run.ids(0)[t], t);
    if (!row) continue;
    float* to = table + *row * width;
    context.vector.add_row(to, run.floats(1) + t * width, to, 1, width);
  }
}

}  // namespace

const CpuOpKernel kEmbeddingKernel{run_embedding};
const CpuOpKernel kEmbeddingGradKernel{.run = run_embedding_grad, .accumulates = true};
const CpuOpKernel kEmbeddingSliceKernel{run_embedding_slice};
const CpuOpKernel kEmbeddingSliceGradKernel{.run = run_embedding_slice_grad, .accumulates = true};

}  // namespace weft
