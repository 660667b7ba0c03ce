#include "core/device/op_run.h"

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft {

void throw_emulated_only(const Op& op) {
  throw_error(ErrorCode::kFailedPrecondition,
              "{} is an emulated op, which only emulated devices run", to_string(op));
}

void check_types(const Op& op, std::span<const TensorType> inputs,
                 std::span<const TensorRef> outputs) {
  const std::vector<TensorType> expected = infer_types(op, inputs);
  WEFT_CHECK(expected.size() == outputs.size(), "{} has {} outputs, {} given", to_string(op),
             expected.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type == expected[i]) continue;
    throw_error(ErrorCode::kInvalidArgument, "output {} of {} is {}, but {} was given", i,
                to_string(op), to_string(expected[i]), to_string(outputs[i].type));
  }
}

OpRun checked_run(const Op& op, std::span<const ConstTensorRef> inputs,
                  std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ConstTensorRef& input : inputs) types.push_back(input.type);
  check_types(op, types, outputs);
  WEFT_CHECK(modes.empty() || modes.size() == outputs.size(), "{} modes for {} outputs",
             modes.size(), outputs.size());
  OpRun run{op, inputs, outputs};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] == OutputMode::kWrite) continue;
    if (outputs[i].type.dtype != DType::kF32) {
      throw_error(ErrorCode::kInvalidArgument,
                  "output {} of {} is {}: only f32 outputs can be accumulated", i, to_string(op),
                  to_string(outputs[i].type));
    }
    run.accumulate[i] = true;
  }
  return run;
}

}  // namespace weft
