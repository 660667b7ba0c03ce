#pragma once

#include "apps/data/token_file.h"

namespace weft::apps {

/// Returns the loss on `validation`, in nats per token, of a model that predicts the token
/// frequencies of `train` (with one added to each count). A model that uses context has a lower
/// loss.
double unigram_loss(const TokenFile& train, const TokenFile& validation);

}  // namespace weft::apps
