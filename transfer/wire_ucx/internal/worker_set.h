#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"

namespace weft::transfer {

/// The workers of one UcxWire: a rail per network interface, and one for shared memory where there
/// is any. Apart, because UCX would take shared memory between agents of one machine, and would use
/// the interfaces of a host unevenly.
///
/// A rail has two workers, one that sends messages and one that takes them: what two devices send
/// each other goes over a connection each way, and what a receiver tells about messages comes back
/// on the connection that they went. On one connection for both directions it would wait behind the
/// messages that go the same way.
///
///   this device                            another
///   sending ══ messages ══════════▶ receiving
///           ◀─ credits ────────────
///   receiving ◀═════════ messages ══ sending
///           ─────────── credits ──▶
///
/// Owner: UcxWire. Owner's thread only, but network_bytes_received().
class WorkerSet final {
 public:
  /// A worker, with what UCX hands to the handler when something arrives on it.
  struct Side {
    Side(void* set_owner, std::size_t index, Transports transports, const std::string& interface,
         ucp_am_recv_callback_t handler)
        : owner(set_owner),
          way(index),
          path(transports == Transports::kTcp ? Path::kTcp : Path::kSharedMemory),
          worker(transports, interface, handler, this) {}
    void* owner;
    std::size_t way;  // of every peer: the index of the rail, or 0 for shared memory
    Path path;
    UcxWorker worker;
  };
  struct Rail {
    Side sending, receiving;
  };

  /// `interfaces`: "eth0,eth1", or empty for one rail over whatever UCX chooses. `handler` is
  /// called with a Side for each active message. Throws Error(kUnavailable) without tcp.
  WorkerSet(const std::string& interfaces, ucp_am_recv_callback_t handler, void* owner);

  std::size_t num_rails() const { return rails_.size(); }
  Rail& rail(std::size_t index) { return *rails_[index]; }
  /// Sends and receives. nullptr where this machine gives none.
  Side* shared_memory() { return shared_memory_.get(); }
  std::vector<UcxAddress::Rail> rail_addresses() const;

  std::size_t progress();
  /// Sleeps until a worker has something to do, one of `more` is readable, or `timeout` has passed.
  /// False: it did not sleep, because a worker has something to do already.
  bool wait(std::vector<pollfd>& more, Nanoseconds timeout);
  /// Endpoints are still closing.
  bool is_closing() const;
  /// See Wire. Any thread.
  std::uint64_t network_bytes_received() const;

 private:
  std::vector<Side*> all() const;

  std::vector<std::unique_ptr<Rail>> rails_;
  std::unique_ptr<Side> shared_memory_;
};

}  // namespace weft::transfer
