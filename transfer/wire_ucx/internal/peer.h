#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/eager_ledger.h"
#include "transfer/wire_ucx/internal/prefix.h"
#include "transfer/wire_ucx/internal/process_watch.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"
#include "transfer/wire_ucx/internal/worker_set.h"

namespace weft::transfer {

class UcxWire;

// How long messages of a peer may still come after a connection with it has ended: all end together
// when it does.
inline constexpr auto kLastMessagesTime = std::chrono::milliseconds(200);

/// A device that a UcxWire is connected to. Lives as long as the wire, because UCX's callbacks name
/// it.
///
/// Both devices make an endpoint for a connection, and UCX joins them when it has the requests of
/// both. Closed before that, UCX 1.13.1 may end either process: it answers the other's request with
/// a third endpoint, where the other takes only one answer (ucp_ep_update_remote_id), or finds
/// messages left that waited for the joining (wireup_ep.c). So a hello is all that is sent before a
/// connection is open, and it is not closed until it is open or broken.
struct Peer {
  struct Connection {
    UcxWorker* worker = nullptr;
    ucp_ep_h endpoint = nullptr;  // none: closed
    bool said = false;            // our hello on it has left
    bool heard = false;           // the peer's hello has come
    bool ended = false;           // broken, or the peer will send nothing more on it

    bool is_open() const { return said && heard; }
  };
  /// What was to be sent before its connections were open.
  struct Unsent {
    std::vector<std::byte> header;
    std::span<const std::byte> payload;
    Token token;
  };
  /// What goes over shared memory, or over one pair of network interfaces.
  struct Way {
    Connection out;  // messages to the peer; what it tells about them comes back on it
    // messages from it, and what is told about those; no worker over shared memory, where `out`
    // does both
    Connection back;
    EagerLedger eager = EagerLedger();
    std::size_t at_sender = 0;  // bytes of rendezvous under way

    Connection& told_on() { return back.worker != nullptr ? back : out; }
  };
  enum class End { kNone, kFailed, kDropped };

  DeviceId id;
  SenderProof proof{};  // that this device is who it says, for this peer
  UcxWire* wire = nullptr;
  std::vector<Way> ways;
  bool open = false;  // all connections are
  std::vector<Unsent> unsent;
  ProcessWatch process;  // of those reached through shared memory
  Path path = Path::kTcp;
  std::string routes;  // "10.9.0.2 (eth0), from 10.9.0.1 (eth0)"
  End end = End::kNone;
  std::string cause;  // of kFailed
  std::size_t eager_limit = 0;
  /// When the first of its connections ended. Others may still carry what it sent before: messages,
  /// and credits for ours.
  std::optional<std::chrono::steady_clock::time_point> ending_since;

  /// Eager bytes that it may still have to keep.
  std::size_t untaken() const {
    std::size_t sum = 0;
    for (const Way& way : ways) sum += way.eager.untaken();
    return sum;
  }
  /// The way that has least to carry; so each carries as much as it can, whatever their speeds.
  std::size_t least_loaded_way() const {
    const auto load = [](const Way& way) { return way.eager.untaken() + way.at_sender; };
    const auto least = std::min_element(
        ways.begin(), ways.end(), [&](const Way& a, const Way& b) { return load(a) < load(b); });
    return least - ways.begin();
  }
  /// Makes its endpoints: over shared memory if `path` says so, else on as many rails as both
  /// devices have. `on_error` is called with this peer.
  void join(WorkerSet& workers, const UcxAddress& address, ucp_err_handler_cb_t on_error);
  /// Every connection once.
  std::vector<Connection*> connections();
  /// The connections for which `which` holds have ended, because of `why`.
  void end_connections(const std::function<bool(const Connection&)>& which, const std::string& why);
  /// Nothing more will come from it: all connections have ended, or the first did so long ago that
  /// the others are stuck.
  bool is_over();
  void fail(std::string why) {
    if (end != End::kNone) return;
    end = End::kFailed;
    cause = std::move(why);
  }
};

}  // namespace weft::transfer
