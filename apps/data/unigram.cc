#include "apps/data/unigram.h"

#include <cmath>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {

double unigram_loss(const TokenFile& train, const TokenFile& validation) {
  if (train.vocabulary() != validation.vocabulary() || validation.size() == 0)
    throw_error(ErrorCode::kInvalidArgument,
                "unigram_loss needs token files of one vocabulary, not {} and {}",
                train.vocabulary(), validation.vocabulary());
  std::vector<double> count(train.vocabulary(), 1.0);
  for (std::size_t i = 0; i < train.size(); ++i) count[train[i]] += 1;
  const double total = static_cast<double>(train.size()) + train.vocabulary();
  double loss = 0;
  for (std::size_t i = 0; i < validation.size(); ++i)
    loss -= std::log(count[validation[i]] / total);
  return loss / validation.size();
}

}  // namespace weft::apps
