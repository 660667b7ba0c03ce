#include "transfer/wire_ucx/internal/peer_table.h"

namespace weft::transfer {

Peer* PeerTable::find(DeviceId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.get();
}

Peer& PeerTable::add(std::unique_ptr<Peer> peer) {
  const DeviceId id = peer->id;
  return *peers_.emplace(id, std::move(peer)).first->second;
}

void PeerTable::open(Peer& peer) {
  for (Peer::UcxConnection* connection : peer.connections()) {
    if (early_.erase({peer.id, connection->worker}) == 0) continue;
    (peer.path == Path::kTcp ? connection->greeted : connection->hello_received) = true;
  }
  continue_opening(peer);
}

void PeerTable::hello_arrived(DeviceId sender, const UcxWorker& worker, WireHeader::Kind kind) {
  bool known = false;
  const auto hear = [&](Peer& peer) {
    for (Peer::UcxConnection* connection : peer.connections()) {
      if (peer.id != sender || connection->worker != &worker) continue;
      known = connection->greeted = true;
      connection->hello_received |= kind == WireHeader::kHello;
    }
    sender_.open_if_connected(peer);
  };
  for (Peer* peer : lingering_) hear(*peer);
  if (Peer* peer = find(sender)) hear(*peer);
  if (!known) early_.insert({sender, &worker});
}

void PeerTable::continue_opening() {
  for (const auto& [id, peer] : peers_) continue_opening(*peer);
  for (Peer* peer : lingering_) continue_opening(*peer);
}

void PeerTable::continue_opening(Peer& peer) {
  if (peer.open) return;
  for (Peer::UcxConnection* connection : peer.connections()) {
    if (connection->endpoint == nullptr || connection->ended || connection->hello_begun) continue;
    if (!connection->greeting_sent)
      connection->greeting_sent = sender_.try_greeting(peer, *connection);
    if (!connection->greeting_sent || !connection->greeted) continue;
    connection->hello_begun = true;
    sender_.send_control(peer, *connection, WireHeader::kHello, 0);
  }
}

std::vector<Peer*> PeerTable::find_failed() {
  std::vector<Peer*> failed;
  for (const auto& [id, peer] : peers_) {
    if (peer->is_over()) peer->fail(peer->cause);
    if (peer->end == Peer::End::kFailed) failed.push_back(peer.get());
  }
  return failed;
}

void PeerTable::retire(Peer& peer) {
  if (!close(peer, UcxWorker::Close::kForce)) lingering_.push_back(&peer);
  const auto found = peers_.find(peer.id);
  retired_.push_back(std::move(found->second));
  peers_.erase(found);
}

bool PeerTable::close(Peer& peer, UcxWorker::Close how) {
  bool all = true;
  for (Peer::UcxConnection* connection : peer.connections()) {
    if (connection->endpoint == nullptr) continue;
    if (!connection->is_open() && !connection->ended) {
      all = false;
      continue;
    }
    // A socket's end notifies the other side; shared memory needs a message for that.
    if (!connection->ended) sender_.send_control(peer, *connection, WireHeader::kGoodbye, 0);
    connection->worker->close(std::exchange(connection->endpoint, nullptr), how);
  }
  return all;
}

bool PeerTable::close_lingering() {
  std::erase_if(lingering_, [&](Peer* peer) { return close(*peer, UcxWorker::Close::kForce); });
  return lingering_.empty();
}

bool PeerTable::close_all(const std::set<DeviceId>& cut) {
  bool all = close_lingering();
  for (const auto& [id, peer] : peers_)
    all &= close(*peer, cut.contains(id) ? UcxWorker::Close::kForce : UcxWorker::Close::kFlush);
  return all;
}

}  // namespace weft::transfer
