#include "mesh/objects/notice_queue.h"

#include <memory>
#include <utility>

#include "actors/call/first_of.h"
#include "actors/call/pending.h"

namespace weft::mesh {

void NoticeQueue::add(const actors::ProcessRef& process, const Notice& notice) {
  Peer& peer = peers_.try_emplace(process.id, Peer{process}).first->second;
  peer.waiting.push_back(notice);
  if (peer.sent.empty()) send_waiting(peer);
}

void NoticeQueue::send_waiting(Peer& peer) {
  peer.sent = std::exchange(peer.waiting, {});
  const actors::Future<void> sent = send_(peer.process, peer.sent);
  const auto call =
      std::static_pointer_cast<actors::CallState>(actors::FirstDone::operation_of(sent));
  call->when_done([this, poster = poster_, process = peer.process.id, state = call.get()] {
    std::optional<Error> error;
    if (state->error()) error = *state->error();
    poster.post([this, process, error] { ended(process, error); });
  });
}

void NoticeQueue::ended(actors::ProcessId process, const std::optional<Error>& error) {
  const auto found = peers_.find(process);
  Peer& peer = found->second;
  // The call was not started: too many others wait there.
  if (error && error->code() == ErrorCode::kResourceExhausted)
    peer.waiting.insert(peer.waiting.begin(), peer.sent.begin(), peer.sent.end());
  peer.sent.clear();
  if (peer.waiting.empty()) peers_.erase(found);
  else send_waiting(peer);
}

}  // namespace weft::mesh
