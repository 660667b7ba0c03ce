#pragma once

#include <memory>
#include <string>

#include "core/base/secret.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Undoes what UCX does to a process when it is loaded, once: crashes are reported by
/// report_crashes() again, or by a sanitizer. To be called early in the main() of a program that
/// may open a wire; opening one calls it, too. Any thread.
void calm_ucx();

struct UcxOptions {
  /// Known to the devices that may send to each other, and to nobody else: whoever reaches these
  /// ports without it is not heard. It must not be empty.
  Secret secret;
  /// Network interfaces for tcp, "lo" or "eth0,eth1"; empty: UCX chooses one. Of several, each is a
  /// rail: the first of this device is joined to the first of another, and so on, and messages are
  /// spread over them by what they carry already, whatever their speeds. UCX itself reads what
  /// comes to these ports: a run on one machine should say "lo".
  std::string interfaces;
  /// Payloads up to this size travel with their header: one wake-up of the receiver instead of a
  /// rendezvous of three. And they arrive in order, while rendezvous share the link and all end
  /// together: a chain of 4 hosts in chunks of 256 KiB took 1.15 s for 64 MiB instead of 1.28.
  std::size_t tcp_eager_bytes = 256 * 1024;
  std::size_t shm_eager_bytes = 128 * 1024;
};

/// A wire over UCX active messages: TCP to devices of other hosts, shared memory to devices of
/// `host`, even where "hosts" are agents on one machine. Event-driven: wait() sleeps on the
/// workers' event descriptors.
///
/// Where System V shared memory is not to be had, tcp serves inside the host too. Throws
/// Error(kInvalidArgument) without a secret, Error(kUnavailable) if UCX finds no transport.
std::unique_ptr<Wire> make_ucx_wire(DeviceId self, HostId host, const UcxOptions& options);

}  // namespace weft::transfer
