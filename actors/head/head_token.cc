#include "actors/head/head_token.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::actors {

TokenRotation HeadToken::rotate(const std::vector<ProcessId>& members) {
  if (!rotate_)
    throw_error(ErrorCode::kFailedPrecondition,
                "the token was not replaced: this head was started with a token from outside; "
                "replace it there");
  TokenRotation rotated = rotate_(members);
  log_.record(fmt::format("the cluster's token was replaced; the head sent it to {} process{}",
                          rotated.notified, rotated.notified == 1 ? "" : "es"));
  return rotated;
}

}  // namespace weft::actors
