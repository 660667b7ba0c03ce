#pragma once

#include "core/base/secret.h"

namespace weft::test {

/// The token of a cluster, or the secret of wires, whose processes a test plays itself.
inline Secret cluster_token() {
  Secret::Bytes bytes{};
  bytes.fill(std::byte{42});
  return Secret(bytes);
}

}  // namespace weft::test
