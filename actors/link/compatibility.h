#pragma once

#include <optional>
#include <string>

#include "actors/message/message.h"

namespace weft::actors {

/// What to do about a token that does not fit.
inline constexpr const char* kTokenHint =
    "a cluster's token is in the file that `weft head` names when it starts: give a copy of it, "
    "readable by you alone, with "
    "--token-file FILE";

/// "worker0/device1 (gpt, pid 4121)"; safe to print, whoever sent it.
std::string describe(const Introduction& side);

/// Whether `self` may talk to `other`, which has introduced itself; pure. The refusal names both
/// sides, what differs and what to do: interfaces that both know must be equal; two apps must be
/// the same executable.
std::optional<Reject> find_incompatibility(const Introduction& self, const Introduction& other);

/// A refusal as the Error of the side that was refused; safe to print. kUnavailable where its
/// sender has not proven that it belongs to the cluster.
Error to_error(const Reject& reject);

}  // namespace weft::actors
