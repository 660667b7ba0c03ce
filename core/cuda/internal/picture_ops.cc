// Up-sampling, concat, and slices of a dimension.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

PictureShape picture_of(const Shape& shape) { return {shape[0], shape[1], shape[2], shape[3]}; }

void run_upsample(Backend& backend, const OpRun& run) {
  upsample(backend.stream(), run.type(0), run.in(0), run.out(), picture_of(run.shape(0)),
           run.op.integer("factor"));
}

void run_upsample_grad(Backend& backend, const OpRun& run) {
  upsample_grad(backend.stream(), run.type(0), run.in(0), run.out(),
                picture_of(run.outputs[0].type.shape), run.op.integer("factor"));
}

void run_concat(Backend& backend, const OpRun& run) {
  const std::int64_t joined = run.outputs[0].type.shape.back();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const std::int64_t columns = run.columns(i);
    copy_columns(backend.stream(), run.type(i), run.in(i), columns, 0, run.out(), joined, begin,
                 run.rows(i), columns);
    begin += columns;
  }
}

void run_slice(Backend& backend, const OpRun& run) {
  const std::int64_t dim = run.op.integer("dim"), stride = run.stride(0, dim);
  const std::int64_t columns = run.shape(0)[dim] * stride, size = run.op.integer("size") * stride;
  copy_columns(backend.stream(), run.type(0), run.in(0), columns, run.op.integer("begin") * stride,
               run.out(), size, 0, run.size(0) / columns, size);
}

}  // namespace

const OpKernel kUpsampleKernel{run_upsample};
const OpKernel kUpsampleGradKernel{run_upsample_grad};
const OpKernel kConcatKernel{run_concat};
const OpKernel kSliceKernel{run_slice};

}  // namespace weft::cuda
