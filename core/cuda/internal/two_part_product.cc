#include "core/cuda/internal/two_part_product.h"

#include "core/base/check.h"

namespace weft::cuda {

void TwoPartProduct::queue(const MatrixProduct& fused) {
  const std::int64_t elements = fused.m * fused.n;
  MatrixProduct plain = fused;
  plain.addend = nullptr;
  plain.epilogue = Epilogue::kNone;
  plain.gelu_input = nullptr;
  plain.b_row_sums = nullptr;
  if (fused.epilogue == Epilogue::kGelu && fused.gelu_input != nullptr) plain.c = fused.gelu_input;
  backend_.multiply(plain);
  const auto apply = [&](OpKind f, const void* a, const void* b) {
    launch_elementwise(backend_.stream(), f, fused.out, a, b, fused.c, elements, 0, false);
  };
  if (fused.addend != nullptr) apply(OpKind::kAdd, fused.addend, fused.c);
  if (fused.epilogue == Epilogue::kGelu) apply(OpKind::kGelu, plain.c, nullptr);
  if (fused.epilogue == Epilogue::kGeluGrad) apply(OpKind::kGeluGrad, fused.gelu_input, fused.c);
  if (fused.b_row_sums == nullptr) return;
  WEFT_CHECK(!fused.transpose_b, "sums of columns, not of rows");
  if (workspace_ == nullptr)
    workspace_ = backend_.allocate_of<float>(column_sums_workspace(1, fused.k, fused.n, 1));
  sum_rows(backend_.stream(), fused.in, DType::kF32, fused.b, fused.b_row_sums, 1, fused.k, fused.n,
           false, workspace_);
}

}  // namespace weft::cuda
