#pragma once

#include "core/base/secret.h"

namespace weft::test {

/// Returns the cluster token or wire secret for processes that a test simulates.
inline Secret cluster_token() {
  Secret::Bytes bytes{};
  bytes.fill(std::byte{42});
  return Secret(bytes);
}

}  // namespace weft::test
