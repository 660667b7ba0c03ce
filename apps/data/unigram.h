#pragma once

#include "apps/data/token_file.h"

namespace weft::apps {

/// The loss, in nats per token on `validation`, of the model that knows only how frequent each
/// token is in `train` (with one added to each count). A model that has learned anything about
/// context does better.
double unigram_loss(const TokenFile& train, const TokenFile& validation);

}  // namespace weft::apps
