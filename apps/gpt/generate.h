#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/data/tokenizer.h"
#include "apps/gpt/gpt_config.h"
#include "apps/models/gpt_graph.h"
#include "apps/run_files/checkpoint.h"
#include "core/device/device.h"

namespace weft::apps {

/// Continues `sample.prompt` by `sample.tokens` tokens with a GPT of this shape and these
/// parameters, on one device.
///
/// The whole window is computed anew for every token, which is fast enough for a sample.
/// Deterministic in the seed. Asked to stop, it gives the text so far. Throws Error(kIncompatible)
/// if the parameters are not those of the shape.
std::string generate(Device& device, const GptShape& shape,
                     const std::vector<TensorView>& parameters, const Tokenizer& tokenizer,
                     const SampleConfig& sample, std::uint64_t seed,
                     const std::stop_token& stop = {});

/// The index that is drawn with `uniform` in [0, 1) from exp(logits / temperature), among the
/// `top_k` largest (0: all). Temperature 0 gives the largest; equal ones, the first.
std::int32_t draw(std::span<const float> logits, double temperature, std::int64_t top_k,
                  double uniform);

}  // namespace weft::apps
