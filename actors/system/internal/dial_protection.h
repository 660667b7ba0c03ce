#pragma once

#include "actors/net/connection.h"
#include "actors/net/tls.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Returns how a connection that this process dials to `address` is protected.
inline DialTls dial_protection(const SystemOptions& options, TlsPolicy& tls,
                               const Address& address) {
  DialTls protection{&tls, ""};
  const auto& pinned = options.pinned;
  if (pinned && pinned->at == address && (pinned->also_on_loopback || !is_loopback(address.host)))
    protection.certificate = pinned->sha256;
  return protection;
}

}  // namespace weft::actors
