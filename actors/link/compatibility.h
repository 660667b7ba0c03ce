#pragma once

#include <optional>
#include <string>

#include "actors/message/message.h"

namespace weft::actors {

/// Remedy in the error for a wrong token.
inline constexpr const char* kTokenHint =
    "a cluster's token is in the file that `weft head` names when it starts: give a copy of it, "
    "readable by you alone, with "
    "--token-file FILE";

/// Returns e.g. "worker0/device1 (gpt, pid 4121)". Safe to print, even for an untrusted peer.
std::string describe(const PeerDescription& side);

/// Returns why `self` must refuse `other`, or nullopt. Processes of one run must run the same
/// executable. Interfaces are compared later, per handle and per call. The refusal names both
/// sides, the difference and the remedy. Pure.
std::optional<Reject> find_incompatibility(const PeerDescription& self,
                                           const PeerDescription& other);

/// Converts a received refusal to an Error that is safe to print. Its code is kUnavailable unless
/// the sender has proven that it belongs to the cluster.
Error to_error(const Reject& reject);

}  // namespace weft::actors
