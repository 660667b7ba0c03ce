#include "actors/head/head_token.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::actors {

TokenRotation HeadToken::rotate() {
  if (!rotate_)
    throw_error(ErrorCode::kFailedPrecondition,
                "the token was not replaced: this head was started with a token from outside; "
                "replace it there");
  std::vector<ProcessId> members;
  for (const auto& [name, host] : hosts_.all()) members.push_back(host.agent.id);
  for (const auto& [id, owner] : owners_.all()) members.push_back(id);
  TokenRotation rotated = rotate_(members);
  log_.record(fmt::format("the cluster's token was replaced; the head sent it to {} process{}",
                          rotated.notified, rotated.notified == 1 ? "" : "es"));
  return rotated;
}

}  // namespace weft::actors
