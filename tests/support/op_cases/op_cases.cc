#include "tests/support/op_cases/op_cases.h"

#include <algorithm>

namespace weft::test {

std::vector<TensorType> OpCase::types(DType precision) const {
  std::vector<TensorType> types;
  for (const InputCase& input : inputs) {
    types.push_back({input.holds == Holds::kIds   ? DType::kI32
                     : input.holds == Holds::kF32 ? DType::kF32
                                                  : precision,
                     input.shape});
  }
  return types;
}

bool OpCase::is_f32(std::size_t output) const {
  return std::ranges::count(f32_outputs, output) > 0;
}

std::string to_string(const OpCase& c) {
  std::string text = to_string(c.op);
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    text += (i == 0 ? " of " : ", ") + weft::to_string(c.inputs[i].shape);
  return text;
}

OpCases op_cases() {
  OpCases all;
  add_elementwise_cases(all);
  add_linear_cases(all);
  add_convolution_cases(all);
  add_norm_cases(all);
  add_attention_cases(all);
  add_embedding_cases(all);
  add_loss_cases(all);
  add_split_loss_cases(all);
  add_picture_cases(all);
  return all;
}

}  // namespace weft::test
