#pragma once

#include <memory>

#include "transfer/wire/wire.h"

namespace weft::transfer {

struct UcxOptions {
  /// Payloads up to this size travel with their header: one wake-up of the receiver instead of a rendezvous of three.
  std::size_t tcp_eager_bytes = 128 * 1024;
  std::size_t shm_eager_bytes = 128 * 1024;
};

/// A wire over UCX active messages: TCP to devices of other hosts, shared memory to devices of `host`, even where "hosts" are agents on
/// one machine. Event-driven: wait() sleeps on the workers' event descriptors.
///
/// Throws Error(kUnavailable) if UCX finds no usable transport.
std::unique_ptr<Wire> make_ucx_wire(DeviceId self, HostId host, const UcxOptions& options = {});

}  // namespace weft::transfer
