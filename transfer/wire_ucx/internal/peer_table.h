#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/message_sender.h"
#include "transfer/wire_ucx/internal/peer.h"
#include "transfer/wire_ucx/internal/ucx_worker.h"
#include "transfer/wire_ucx/internal/wire_header.h"

namespace weft::transfer {

/// Peers of a UcxWire, from their first connection to the last callback of UCX that refers to them.
///
///   add() ─▶ connected ─ retire() ─▶ lingering, until its connections may be closed ─▶ retired
///
/// Owner's thread only.
class PeerTable final {
 public:
  using Peers = std::map<DeviceId, std::unique_ptr<Peer>>;
  explicit PeerTable(MessageSender& sender) : sender_(sender) {}

  /// Returns a connected peer, or null.
  Peer* find(DeviceId peer) const;
  const Peers& connected() const { return peers_; }
  Peer& add(std::unique_ptr<Peer> peer);
  /// Begins to open the connections of a new peer.
  void open(Peer& peer);
  /// Handles a greeting or a hello that came over `worker`, perhaps before open().
  void hello_arrived(DeviceId sender, const UcxWorker& worker, WireHeader::Kind kind);
  /// Sends the greetings and hellos that can be sent now. Call after each progress of the workers.
  void continue_opening();
  /// Returns the connected peers that have failed or will send nothing more.
  std::vector<Peer*> find_failed();
  /// Removes a peer and closes its endpoints, at once or later. Keeps the Peer, since pending
  /// callbacks refer to it.
  void retire(Peer& peer);

  /// Closes connections that could not be closed earlier. Returns true if none is left.
  bool close_lingering();
  /// Closes all connections, those of `cut` at once and the others after their operations. Returns
  /// true if none is left.
  bool close_all(const std::set<DeviceId>& cut);

 private:
  /// Closes the peer's connections that may be closed (see Peer). Returns true if all are closed.
  bool close(Peer& peer, UcxWorker::Close how);

  void continue_opening(Peer& peer);

  MessageSender& sender_;
  Peers peers_;
  std::vector<std::unique_ptr<Peer>> retired_;
  std::vector<Peer*> lingering_;  // retired, some connections not closed yet
  // first messages of proven devices to which this device has not connected yet: greetings, or
  // hellos over shared memory
  std::set<std::pair<DeviceId, const UcxWorker*>> early_;
};

}  // namespace weft::transfer
