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

/// Workers of one UcxWire: a rail per network interface, and a worker for shared memory if
/// available. They are separate, because UCX would use shared memory between agents of one machine,
/// and would load a host's interfaces unevenly.
///
/// A rail has two workers, one that sends messages and one that receives them. So two devices use
/// one connection per direction of messages, and notices about messages return on the connection of
/// these messages. On a single connection for both directions, notices would queue behind messages.
///
///   this device                            another
///   sending ══ messages ══════════▶ receiving
///           ◀─ credits ────────────
///   receiving ◀═════════ messages ══ sending
///           ─────────── credits ──▶
///
/// Owned by UcxWire. Owner's thread only, except network_bytes_received().
class WorkerSet final {
 public:
  /// Worker, with the context that UCX passes to the handler of its messages.
  struct RailWorker {
    RailWorker(void* set_owner, std::size_t index, Transports transports,
               const std::string& interface, ucp_am_recv_callback_t handler)
        : owner(set_owner),
          route(index),
          path(transports == Transports::kTcp ? Path::kTcp : Path::kSharedMemory),
          worker(transports, interface, handler, this) {}
    void* owner;
    std::size_t route;  // index of the rail at every peer; 0 for shared memory
    Path path;
    UcxWorker worker;
  };
  struct Rail {
    RailWorker sending, receiving;
  };

  /// `interfaces` is a list such as "eth0,eth1", or empty for one rail that UCX chooses. `handler`
  /// is called with a RailWorker for each active message. Throws Error(kUnavailable) without TCP.
  WorkerSet(const std::string& interfaces, ucp_am_recv_callback_t handler, void* owner);

  std::size_t num_rails() const { return rails_.size(); }
  Rail& rail(std::size_t index) { return *rails_[index]; }
  /// Returns the worker for shared memory, which sends and receives. Null if this machine has none.
  RailWorker* shared_memory() { return shared_memory_.get(); }
  std::vector<UcxAddress::RailAddress> rail_addresses() const;

  std::size_t progress();
  /// Blocks until a worker has work, one of `more` is readable, or `timeout` has passed. Sets the
  /// events of `more` even if a worker had work already: over shared memory, a worker has work for
  /// as long as the full queue of a peer makes messages wait, even if that peer is dead.
  void wait(std::vector<pollfd>& more, Nanoseconds timeout);
  /// Returns true if endpoints are still closing.
  bool is_closing() const;
  /// Implements Wire::network_bytes_received(). Any thread.
  std::uint64_t network_bytes_received() const;

 private:
  std::vector<RailWorker*> all() const;

  std::vector<std::unique_ptr<Rail>> rails_;
  std::unique_ptr<RailWorker> shared_memory_;
};

}  // namespace weft::transfer
