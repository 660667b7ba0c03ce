#pragma once

#include <memory>
#include <string>

#include "transfer/wire/wire.h"

namespace weft::transfer {

struct UcxOptions {
  /// Network interfaces for tcp, "lo" or "eth0,eth1"; empty: all. Nobody is asked for a password on these ports: a run on one
  /// machine should say "lo".
  std::string interfaces;
  /// Payloads up to this size travel with their header: one wake-up of the receiver instead of a rendezvous of three.
  std::size_t tcp_eager_bytes = 128 * 1024;
  std::size_t shm_eager_bytes = 128 * 1024;
};

/// A wire over UCX active messages: TCP to devices of other hosts, shared memory to devices of `host`, even where "hosts" are
/// agents on one machine. Event-driven: wait() sleeps on the workers' event descriptors.
///
/// Where System V shared memory is not to be had, tcp serves inside the host too. Throws Error(kUnavailable) if UCX finds no
/// transport.
std::unique_ptr<Wire> make_ucx_wire(DeviceId self, HostId host, const UcxOptions& options = {});

}  // namespace weft::transfer
