#pragma once

#include <optional>
#include <string>

#include "actors/message/message.h"

namespace weft::actors {

/// "worker0/device1 (gpt, pid 4121)".
std::string describe(const Introduction& side);

/// Whether `self` may talk to `other`, which has introduced itself; pure. The refusal names both sides, what differs and what to
/// do: interfaces that both know must be equal; two apps must be the same executable.
std::optional<Reject> find_incompatibility(const Introduction& self, const Introduction& other);

/// A refusal as the Error of the side that was refused.
Error to_error(const Reject& reject);

}  // namespace weft::actors
