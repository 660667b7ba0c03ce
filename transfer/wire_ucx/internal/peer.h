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
#include "transfer/wire_ucx/internal/eager_flow_control.h"
#include "transfer/wire_ucx/internal/process_watch.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"
#include "transfer/wire_ucx/internal/wire_header.h"
#include "transfer/wire_ucx/internal/worker_set.h"

namespace weft::transfer {

// Time after the end of a peer's first connection during which its other connections may still
// deliver messages. Afterwards all of them count as ended.
inline constexpr auto kDrainTime = std::chrono::milliseconds(200);

/// Device that a UcxWire is connected to. Lives as long as the wire, because UCX's callbacks refer
/// to it.
///
/// Both devices create an endpoint for a connection, and UCX joins the two once it has both
/// requests. If an endpoint is closed before that, UCX 1.13.1 may abort either process. It may
/// answer the other's request with a third endpoint, where the other accepts only one answer
/// (ucp_ep_update_remote_id). Or it finds leftover messages that waited for the join (wireup_ep.c).
/// So only a hello is sent before a connection is open, and a connection is not closed until it is
/// open or broken.
///
/// If a peer dies while UCX's answer to its request waits for a socket, UCX 1.13.1 aborts this
/// process (ucp_request_send_state_ff, "got REP message"). So over TCP each end first sends a
/// greeting, as soon as its socket sends, and makes its request (with the hello) only after the
/// other's greeting. Greetings never wait inside UCX.
///
///   greeting sent, greeting received ─▶ hello sent, hello received ─▶ open
struct Peer {
  struct UcxConnection {
    UcxWorker* worker = nullptr;
    ucp_ep_h endpoint = nullptr;  // null: closed
    bool greeting_sent = false;   // our greeting on it has left
    bool greeted = false;         // the peer's greeting has arrived
    bool hello_begun = false;     // UCX works on our hello
    bool hello_sent = false;      // our hello on it has left
    bool hello_received = false;  // the peer's hello has arrived
    bool ended = false;           // broken, or the peer will send nothing more on it

    bool is_open() const { return hello_sent && hello_received; }
  };
  /// Message to send once the connections are open.
  struct QueuedMessage {
    std::vector<std::byte> header;
    std::span<const std::byte> payload;
    Token token;
  };
  /// Route to a peer: shared memory, or one pair of network interfaces.
  struct UcxRoute {
    UcxConnection out;  // messages to the peer, and its notices about them
    // messages from the peer, and notices about them; no worker over shared memory, where `out`
    // serves both directions
    UcxConnection back;
    EagerFlowControl eager = EagerFlowControl();
    std::size_t rendezvous_bytes = 0;  // bytes of rendezvous in flight

    UcxConnection& notice_connection() { return back.worker != nullptr ? back : out; }
  };
  enum class End { kNone, kFailed, kDropped };

  DeviceId id;
  SenderProof proof{};  // proves this device's identity to this peer
  std::vector<UcxRoute> routes;
  bool open = false;  // true if all connections are open
  std::vector<QueuedMessage> queued;
  ProcessWatch process;  // peers reached through shared memory only
  Path path = Path::kTcp;
  std::string route_text;  // both ends: "10.9.0.2 (eth0), from 10.9.0.1 (eth0)"
  End end = End::kNone;
  std::string cause;  // cause of kFailed
  std::size_t eager_limit = 0;
  /// Time when the first connection ended. Others may still carry messages that the peer sent
  /// earlier, and credits for ours.
  std::optional<std::chrono::steady_clock::time_point> first_ended;

  /// Returns the eager bytes that the peer may still have to keep.
  std::size_t untaken() const {
    std::size_t sum = 0;
    for (const UcxRoute& route : routes) sum += route.eager.untaken();
    return sum;
  }
  /// Returns the least loaded route. So each route carries as much as it can, whatever the speeds.
  std::size_t least_loaded_route() const {
    const auto load = [](const UcxRoute& route) {
      return route.eager.untaken() + route.rendezvous_bytes;
    };
    const auto least =
        std::min_element(routes.begin(), routes.end(),
                         [&](const UcxRoute& a, const UcxRoute& b) { return load(a) < load(b); });
    return least - routes.begin();
  }
  /// Creates the endpoints: over shared memory if `path` says so, otherwise on as many rails as
  /// both devices have. `on_error` is called with this peer.
  void connect_endpoints(WorkerSet& workers, const UcxAddress& address,
                         ucp_err_handler_cb_t on_error);
  /// Returns every connection once.
  std::vector<UcxConnection*> connections();
  /// Marks the connections for which `which` holds as ended, because of `why`.
  void end_connections(const std::function<bool(const UcxConnection&)>& which,
                       const std::string& why);
  /// Returns true if the peer will send nothing more: all connections have ended, or the first
  /// ended kDrainTime ago.
  bool is_over();
  void fail(std::string why) {
    if (end != End::kNone) return;
    end = End::kFailed;
    cause = std::move(why);
  }
};

}  // namespace weft::transfer
