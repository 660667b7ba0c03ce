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
/// Recomputes the whole window for every token, which is fast enough for a sample. Deterministic in
/// the seed. Returns the text so far if `stop` is requested. Throws Error(kIncompatible) if the
/// parameters do not match the shape.
std::string generate(Device& device, const GptShape& shape,
                     const std::vector<TensorView>& parameters, const Tokenizer& tokenizer,
                     const SampleConfig& sample, std::uint64_t seed,
                     const std::stop_token& stop = {});

/// Samples a token index from exp(logits / temperature) by the inverse CDF at `uniform` in [0, 1).
/// Considers the `top_k` largest logits only (0: all). Temperature 0 returns the largest logit, the
/// first one on a tie.
std::int32_t sample_token(std::span<const float> logits, double temperature, std::int64_t top_k,
                          double uniform);

}  // namespace weft::apps
