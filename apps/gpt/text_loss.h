#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "apps/models/gpt_graph.h"
#include "apps/run_files/safetensors.h"
#include "core/device/device.h"

namespace weft::apps {

/// Returns the mean loss per token, in nats, of a GPT of this shape and these parameters, computed
/// in f32 on one device. Splits the tokens into windows without overlap and ignores a shorter rest
/// at the end. Ignores the batch of `shape`. Throws Error(kInvalidArgument) if there is no window,
/// Error(kIncompatible) if the parameters do not match the shape, Error(kCancelled) if `stop` is
/// requested.
double text_loss(Device& device, const GptShape& shape, const std::vector<TensorView>& parameters,
                 std::span<const std::int32_t> tokens, const std::stop_token& stop = {});

}  // namespace weft::apps
