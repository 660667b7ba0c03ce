#include "transfer/wire_ucx/internal/worker_set.h"

#include <algorithm>
#include <chrono>

#include "transfer/wire_ucx/internal/tcp_bytes.h"

namespace weft::transfer {
namespace {

/// Splits a list: "eth0,eth1" into two names, "" into one empty name.
std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

WorkerSet::WorkerSet(const std::string& interfaces, ucp_am_recv_callback_t handler, void* owner) {
  for (const std::string& name : names_in(interfaces))
    rails_.push_back(
        std::unique_ptr<Rail>(new Rail{{owner, rails_.size(), Transports::kTcp, name, handler},
                                       {owner, rails_.size(), Transports::kTcp, name, handler}}));
  try {
    shared_memory_ = std::make_unique<RailWorker>(owner, 0, Transports::kSharedMemory, "", handler);
  } catch (const Error&) {
    // Devices of this host are then reached over TCP; Wire::path_to() reports that.
  }
}

std::vector<UcxAddress::RailAddress> WorkerSet::rail_addresses() const {
  std::vector<UcxAddress::RailAddress> addresses;
  for (const auto& rail : rails_)
    addresses.push_back({rail->sending.worker.address(), rail->receiving.worker.address()});
  return addresses;
}

std::vector<WorkerSet::RailWorker*> WorkerSet::all() const {
  std::vector<RailWorker*> sides;
  for (const auto& rail : rails_) sides.insert(sides.end(), {&rail->sending, &rail->receiving});
  if (shared_memory_) sides.push_back(shared_memory_.get());
  return sides;
}

std::size_t WorkerSet::progress() {
  std::size_t events = shared_memory_ ? shared_memory_->worker.progress() : 0;
  for (const auto& rail : rails_)
    events += rail->receiving.worker.progress() + rail->sending.worker.progress();
  return events;
}

void WorkerSet::wait(std::vector<pollfd>& more, Nanoseconds timeout) {
  const std::size_t first = more.size();
  for (RailWorker* side : all()) {
    if (!side->worker.arm()) {
      timeout = Nanoseconds(0);
      break;
    }
    more.push_back({side->worker.event_fd(), POLLIN, 0});
  }
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp<Nanoseconds>(timeout, Nanoseconds(0), std::chrono::hours(1)));
  if (::poll(more.data(), more.size(), milliseconds.count()) <= 0) {
    for (pollfd& fd : more) fd.revents = 0;
  }
  more.resize(first);
}

bool WorkerSet::is_closing() const {
  const auto sides = all();
  return std::any_of(sides.begin(), sides.end(),
                     [](const RailWorker* side) { return side->worker.num_closing() > 0; });
}

std::uint64_t WorkerSet::network_bytes_received() const {
  std::uint64_t bytes = 0;
  for (const auto& rail : rails_) {
    for (const RailWorker* side : {&rail->sending, &rail->receiving})
      bytes += tcp_bytes_received(side->worker.event_fd());
  }
  return bytes;
}

}  // namespace weft::transfer
