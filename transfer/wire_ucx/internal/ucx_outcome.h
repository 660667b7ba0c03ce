#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "core/base/outcome.h"
#include "transfer/wire_ucx/internal/peer.h"

namespace weft::transfer {

/// Returns UCX's description of a status. For network errors of a peer, adds the addresses of both
/// ends and advice. `peer` may be null.
std::string text_of(ucs_status_t status, const Peer* peer);

/// Returns the outcome of a send to or a receive from a peer; null: a device that was dropped.
Outcome<void> outcome_of(ucs_status_t status, const Peer* peer);

}  // namespace weft::transfer
