#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "core/codec/codec.h"

namespace weft::transfer {

/// Identifier of one execution of one plan, the same on every device that takes part.
///
/// `op` is the transfer's index in the program. `microbatch` and `step` tell executions apart.
/// `epoch` is the incarnation of the mesh: messages of an epoch older than the newest one started
/// are dropped.
struct TransferId {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t op = 0;
  std::uint32_t microbatch = 0;

  friend auto operator<=>(const TransferId&, const TransferId&) = default;
  static constexpr auto fields =
      weft::fields(&TransferId::epoch, &TransferId::step, &TransferId::op, &TransferId::microbatch);
};

/// Formats an id, such as "epoch 1 step 3 op 5 microbatch 2".
inline std::string to_string(const TransferId& id) {
  return fmt::format("epoch {} step {} op {} microbatch {}", id.epoch, id.step, id.op,
                     id.microbatch);
}

}  // namespace weft::transfer

template <>
struct std::hash<weft::transfer::TransferId> {
  std::size_t operator()(const weft::transfer::TransferId& id) const noexcept {
    return weft::mix_fingerprint(weft::mix_fingerprint(id.epoch, id.step),
                                 (std::uint64_t{id.op} << 32) | id.microbatch);
  }
};
