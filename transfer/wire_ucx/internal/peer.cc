#include "transfer/wire_ucx/internal/peer.h"

namespace weft::transfer {

void Peer::join(WorkerSet& workers, const UcxAddress& address, ucp_err_handler_cb_t on_error) {
  const auto connection = [&](WorkerSet::Side& side, const std::vector<std::byte>& to) {
    return Connection{&side.worker, side.worker.connect(to, on_error, this)};
  };
  if (path == Path::kSharedMemory) {
    const Connection both = connection(*workers.shared_memory(), address.shm);
    ways.push_back({both, both});
    return;
  }
  const std::size_t rails = std::min(workers.num_rails(), address.tcp.size());
  for (std::size_t i = 0; i < rails; ++i) {
    WorkerSet::Rail& rail = workers.rail(i);
    ways.push_back({connection(rail.sending, address.tcp[i].receiving), connection(rail.receiving, address.tcp[i].sending),
                    EagerLedger(EagerLedger::kStep / rails)});
  }
}

void Peer::close(UcxWorker::Close how) {
  for (const Way& way : ways) {
    way.out.worker->close(way.out.endpoint, how);
    if (way.back.endpoint != way.out.endpoint) way.back.worker->close(way.back.endpoint, how);
  }
}

void Peer::end_connections(const std::function<bool(const Connection&)>& which, const std::string& why) {
  for (Way& way : ways) {
    for (Connection* connection : {&way.out, &way.back}) connection->ended |= which(*connection);
  }
  if (ending_since) return;
  cause = why;
  ending_since = std::chrono::steady_clock::now();
}

bool Peer::is_over() const {
  if (!ending_since) return false;
  const auto ended = [](const Way& way) { return way.out.ended && way.back.ended; };
  return std::all_of(ways.begin(), ways.end(), ended) || std::chrono::steady_clock::now() >= *ending_since + kLastMessagesTime;
}

}  // namespace weft::transfer
