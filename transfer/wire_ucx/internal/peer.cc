#include "transfer/wire_ucx/internal/peer.h"

namespace weft::transfer {

void Peer::connect_endpoints(WorkerSet& workers, const UcxAddress& address,
                             ucp_err_handler_cb_t on_error) {
  const auto connect = [&](UcxConnection& connection, WorkerSet::RailWorker& side,
                           const std::vector<std::byte>& to) {
    connection.worker = &side.worker;
    connection.endpoint = side.worker.connect(to, on_error, this);
  };
  if (path == Path::kSharedMemory) {
    UcxConnection& only = routes.emplace_back().out;
    only.greeting_sent = only.greeted = true;  // there is no socket
    connect(only, *workers.shared_memory(), address.shm);
    return;
  }
  const std::size_t rails = std::min(workers.num_rails(), address.tcp.size());
  for (std::size_t i = 0; i < rails; ++i) {
    WorkerSet::Rail& rail = workers.rail(i);
    UcxRoute& route = routes.emplace_back();
    route.eager = EagerFlowControl(EagerFlowControl::kStep / rails);
    connect(route.out, rail.sending, address.tcp[i].receiving);
    connect(route.back, rail.receiving, address.tcp[i].sending);
  }
}

std::vector<Peer::UcxConnection*> Peer::connections() {
  std::vector<UcxConnection*> all;
  for (UcxRoute& route : routes) {
    all.push_back(&route.out);
    if (route.back.worker != nullptr) all.push_back(&route.back);
  }
  return all;
}

void Peer::end_connections(const std::function<bool(const UcxConnection&)>& which,
                           const std::string& why) {
  for (UcxConnection* connection : connections()) connection->ended |= which(*connection);
  if (first_ended) return;
  cause = why;
  first_ended = std::chrono::steady_clock::now();
}

bool Peer::is_over() {
  if (!first_ended) return false;
  const auto all = connections();
  return std::all_of(all.begin(), all.end(),
                     [](const UcxConnection* connection) { return connection->ended; }) ||
         std::chrono::steady_clock::now() >= *first_ended + kDrainTime;
}

}  // namespace weft::transfer
