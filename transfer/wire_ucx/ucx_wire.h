#pragma once

#include <memory>
#include <string>

#include "core/base/secret.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Reverts, once, the changes that UCX makes to a process when it is loaded. Afterwards crashes are
/// reported by report_crashes(), or by a sanitizer. Call it early in the main() of a program that
/// may open a wire; opening a wire calls it too. Any thread.
void restore_process_settings();

struct UcxOptions {
  /// Secret shared by exactly the devices that may send to each other. Messages from processes
  /// without it are dropped. Must not be empty.
  Secret secret;
  /// Network interfaces for TCP, such as "lo" or "eth0,eth1". Empty: UCX chooses one. Each of
  /// several interfaces is a rail: the first of this device connects to the first of another, and
  /// so on. Messages go to the least loaded rail, which balances unequal speeds. UCX itself parses
  /// whatever arrives at these ports, so a run on one machine should use "lo".
  std::string interfaces;
  /// Largest payloads, in bytes, that travel with their header. They wake the receiver once, where
  /// a rendezvous wakes it three times. They also arrive in order, whereas rendezvous share the
  /// link and all end together. With chunks of 256 KiB, a chain of 4 hosts took 1.15 s for 64 MiB
  /// instead of 1.28 s.
  std::size_t tcp_eager_bytes = 256 * 1024;
  std::size_t shm_eager_bytes = 128 * 1024;
};

/// Creates a wire over UCX active messages. It uses TCP to devices of other hosts, and shared
/// memory to devices of `host`, even if several "hosts" are agents on one machine. Event-driven:
/// wait() sleeps on the workers' event descriptors.
///
/// If System V shared memory is unavailable, TCP is also used inside the host. Throws
/// Error(kInvalidArgument) without a secret, and Error(kUnavailable) if UCX finds no transport.
std::unique_ptr<Wire> make_ucx_wire(DeviceId self, HostId host, const UcxOptions& options);

}  // namespace weft::transfer
