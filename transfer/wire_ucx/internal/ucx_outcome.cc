#include "transfer/wire_ucx/internal/ucx_outcome.h"

#include <fmt/format.h>

#include "transfer/wire_ucx/internal/network_text.h"

namespace weft::transfer {

std::string text_of(ucs_status_t status, const Peer* peer) {
  const bool unreached = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NO_DEVICE ||
                         status == UCS_ERR_TIMED_OUT || status == UCS_ERR_ENDPOINT_TIMEOUT;
  if (!unreached || peer == nullptr || peer->path != Path::kTcp) return ucs_status_string(status);
  return fmt::format("device {} at {}: {}; {}", peer->id, peer->route_text,
                     ucs_status_string(status), network_advice());
}

Outcome<void> outcome_of(ucs_status_t status, const Peer* peer) {
  if (status == UCS_OK) return {};
  if (peer != nullptr && peer->end == Peer::End::kDropped)
    return Error(ErrorCode::kCancelled,
                 fmt::format("the connection to device {} was dropped", peer->id));
  return Error(ErrorCode::kPeerDied, text_of(status, peer));
}

}  // namespace weft::transfer
