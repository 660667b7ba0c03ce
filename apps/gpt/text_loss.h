#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "apps/models/gpt_graph.h"
#include "apps/run_files/safetensors.h"
#include "core/device/device.h"

namespace weft::apps {

/// The mean loss of a token, in nats, of a GPT of this shape and these parameters on one device:
/// over the windows without overlap that the tokens have, in f32; the batch of `shape` is not
/// looked at. What is left at the end, shorter than a window, does not count. Throws
/// Error(kInvalidArgument) if there is no window, Error(kIncompatible) if the parameters are not
/// those of the shape, Error(kCancelled) if asked to stop.
double text_loss(Device& device, const GptShape& shape, const std::vector<TensorView>& parameters,
                 std::span<const std::int32_t> tokens, const std::stop_token& stop = {});

}  // namespace weft::apps
