// Gradient of a linear's input through a cross-entropy with rows split over devices:
// core/ops/split_cross_entropy_input_grad.cc.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

void run_numerators(Backend& backend, const OpRun& run) {
  const LogitSlice slice{run.rows(0), run.columns(0), run.op.integer("first"),
                         run.op.integer("columns")};
  cross_entropy_numerators(backend.stream(), run.type(0), run.in(0), run.floats(1), run.out(),
                           slice, run.op.integer("slice_width"));
}

/// Copies columns if there are several slices, as matrix products need dense inputs and results.
/// Only a single device has several slices.
void run_slice_input_grad(Backend& backend, const OpRun& run) {
  const bool transposed = run.op.integer("transposed") != 0;
  const DType type = run.type(0);
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  const std::int64_t width = run.size(1) / columns;
  const std::int64_t slice = run.op.integer("slice_width"), slices = columns / slice;
  MatrixProduct product{.in = type,
                        .out = DType::kF32,
                        .a = run.in(0),
                        .b = run.in(1),
                        .c = run.out(),
                        .m = rows,
                        .n = width,
                        .k = slice,
                        .transpose_b = !transposed};
  if (slices == 1) return backend.multiply(product);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  void* const numerators = backend.allocate(rows * slice * bytes);
  void* const weight = transposed ? nullptr : backend.allocate(width * slice * bytes);
  product.a = numerators;
  product.c = backend.allocate_of<float>(rows * width);
  for (std::int64_t k = 0; k < slices; ++k) {
    copy_columns(backend.stream(), type, run.in(0), columns, k * slice, numerators, slice, 0, rows,
                 slice);
    if (transposed) {
      product.b = advance(run.in(1), k * slice * width, type);
    } else {
      copy_columns(backend.stream(), type, run.in(1), columns, k * slice, weight, slice, 0, width,
                   slice);
      product.b = weight;
    }
    backend.multiply(product);
    copy_columns(backend.stream(), DType::kF32, product.c, width, 0, run.out(), slices * width,
                 k * width, rows, width);
  }
}

void run_target_rows(Backend& backend, const OpRun& run) {
  const std::int64_t columns = run.op.integer("count");
  const LogitSlice slice{run.size(1), columns, run.op.integer("first"), run.op.integer("columns")};
  target_rows(backend.stream(), run.type(0), run.in(0), run.ids(1), run.out(), slice,
              run.op.integer("slice_width"), run.size(0) / columns,
              run.op.integer("transposed") != 0, fault_word(run.op), backend.fault());
}

void run_combined(Backend& backend, const OpRun& run) {
  const Shape& shape = run.shape(3);
  const std::int64_t slices = shape[shape.size() - 2], width = shape.back();
  const CombinedInputGrad from{.moments = run.floats(0),
                               .statistics = run.floats(1),
                               .products = run.floats(2),
                               .weights = run.inputs.size() == 5 ? run.floats(4) : nullptr,
                               .tokens = run.size(1) / 3,
                               .slices = slices,
                               .width = width,
                               .scale = static_cast<float>(run.op.real("scale"))};
  cross_entropy_combined_input_grad(backend.stream(), run.type(3), from, run.in(3), run.out());
}

}  // namespace

const OpKernel kCrossEntropyNumeratorsKernel{run_numerators};
const OpKernel kLinearSliceInputGradKernel{run_slice_input_grad};
const OpKernel kTargetRowsKernel{run_target_rows};
const OpKernel kCrossEntropyCombinedInputGradKernel{run_combined};

}  // namespace weft::cuda
