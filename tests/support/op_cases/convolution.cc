// Cases of convolutions: odd channel counts, strides that leave pixels over, and non-square
// kernels.
#include "core/ops/op_definition.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

Numbers reference_convolution(const ReferenceRun& run) {
  const Numbers &x = run.in(0), &w = run.in(1), *const bias = run.optional_in(2);
  const Shape &xs = run.shapes[0], &ws = run.shapes[1];
  const std::int64_t stride = run.op.integer("stride"), padding = run.op.integer("padding"),
                     height = (xs[1] + 2 * padding - ws[0]) / stride + 1,
                     width = (xs[2] + 2 * padding - ws[1]) / stride + 1;
  Numbers y;
  for (std::int64_t b = 0; b < xs[0]; ++b) {
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        for (std::int64_t n = 0; n < ws[3]; ++n) {
          double sum = bias != nullptr ? (*bias)[n] : 0;
          for (std::int64_t p = 0; p < ws[0]; ++p) {
            for (std::int64_t q = 0; q < ws[1]; ++q) {
              const std::int64_t row = i * stride + p - padding, column = j * stride + q - padding;
              if (row < 0 || row >= xs[1] || column < 0 || column >= xs[2]) continue;
              for (std::int64_t c = 0; c < xs[3]; ++c) {
                sum += x[((b * xs[1] + row) * xs[2] + column) * xs[3] + c] *
                       w[((p * ws[1] + q) * ws[2] + c) * ws[3] + n];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

}  // namespace

void add_convolution_cases(OpCases& to) {
  to.references[OpKind::kConvolution] = reference_convolution;
  struct Sizes {
    Shape x, w;
    std::int64_t stride, padding;
  };
  for (const auto& [x, w, stride, padding] :
       {Sizes{{2, 5, 7, 3}, {3, 3, 3, 5}, 1, 1}, Sizes{{2, 8, 9, 8}, {3, 3, 8, 16}, 2, 1},
        Sizes{{1, 6, 5, 8}, {1, 1, 8, 8}, 1, 0}, Sizes{{1, 7, 7, 2}, {4, 2, 2, 3}, 3, 0},
        Sizes{{2, 7, 5, 6}, {3, 3, 6, 11}, 1, 1}, Sizes{{2, 6, 9, 1}, {3, 3, 1, 17}, 1, 1},
        Sizes{{2, 7, 8, 16}, {3, 3, 16, 32}, 2, 1}, Sizes{{1, 7, 9, 5}, {2, 2, 5, 3}, 2, 0},
        Sizes{{2, 5, 3, 13}, {1, 1, 13, 10}, 1, 0}, Sizes{{1, 9, 9, 4}, {5, 3, 4, 8}, 1, 1},
        Sizes{{3, 5, 4, 6}, {3, 3, 6, 8}, 1, 1}, Sizes{{3, 7, 6, 6}, {3, 3, 6, 8}, 2, 1}}) {
    const Op op{OpKind::kConvolution, {{"stride", stride}, {"padding", padding}}};
    const Shape y =
        infer_types(op, std::vector<TensorType>{{DType::kF32, x}, {DType::kF32, w}})[0].shape;
    to.add({.op = op, .inputs = {{x}, {w}, {{w[3]}}}, .size = 8});
    to.add({.op = op, .inputs = {{x}, {w}}, .size = 8});
    Op input_grad{OpKind::kConvolutionInputGrad, op.attributes};
    input_grad.attributes.emplace_back("height", x[1]);
    input_grad.attributes.emplace_back("width", x[2]);
    to.add({.op = input_grad, .inputs = {{y}, {w}}, .size = 8});
    Op weight_grad{OpKind::kConvolutionWeightGrad, op.attributes};
    weight_grad.attributes.emplace_back("kernel_height", w[0]);
    weight_grad.attributes.emplace_back("kernel_width", w[1]);
    to.add({.op = weight_grad, .inputs = {{x}, {y}}, .size = 8, .f32_outputs = {0}});
  }
}

}  // namespace weft::test
