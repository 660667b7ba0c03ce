#include "apps/gpt/text_loss.h"

#include <algorithm>
#include <array>

#include "apps/train/model_parameters.h"
#include "core/base/error.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {
namespace {

constexpr std::int64_t kBatch = 16;

}  // namespace

double text_loss(Device& device, const GptShape& shape, const std::vector<TensorView>& parameters,
                 std::span<const std::int32_t> tokens, const std::stop_token& stop) {
  const std::int64_t length = shape.sequence;
  const std::int64_t windows = (std::ssize(tokens) - 1) / length;
  if (windows < 1)
    throw_error(
        ErrorCode::kInvalidArgument,
        "the text has {} tokens, fewer than a window of {} tokens plus 1; name a longer text",
        tokens.size(), length);
  double sum = 0;
  std::int64_t done = 0;
  // First pass: full batches. Second pass: one smaller batch of the remaining windows.
  for (const std::int64_t batch : std::array{std::min(kBatch, windows), windows % kBatch}) {
    if (batch == 0 || done == windows) continue;
    GptShape block = shape;
    block.batch = batch;
    block.precision = DType::kF32;  // the optimizer's f32 values, not their rounded copies
    GptGraph gpt = gpt_graph(block, 1.0 / length);
    Evaluation evaluation(device, gpt.graph, {gpt.loss});
    set_parameters(evaluation, parameters);
    for (; done + batch <= windows; done += batch) {
      if (stop.stop_requested())
        throw_error(ErrorCode::kCancelled, "interrupted after {} of {} windows", done, windows);
      // Consecutive windows of the text form a batch.
      const auto part = tokens.subspan(done * length, batch * length + 1);
      evaluation.write(gpt.tokens, std::as_bytes(part.first(part.size() - 1)));
      evaluation.write(gpt.targets, std::as_bytes(part.subspan(1)));
      evaluation.run();
      sum += evaluation.read<float>(gpt.loss)[0];
    }
  }
  return sum / windows;
}

}  // namespace weft::apps
