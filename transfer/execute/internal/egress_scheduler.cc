#include "transfer/execute/internal/egress_scheduler.h"

#include <algorithm>

namespace weft::transfer {

void EgressScheduler::remove_streams(const ActiveWork& work) {
  order_.remove(work.order());
  send_eligible_streams();
}

void EgressScheduler::schedule(const ActiveWork& work, std::uint32_t stream) {
  update(work, stream);
  send_eligible_streams();
}

void EgressScheduler::update(const ActiveWork& work, std::uint32_t stream) {
  const ActiveWork::NetworkUse use = work.network_use(stream);
  order_.update({work.order(), stream}, use.wants, use.moves, use.places);
}

void EgressScheduler::send_eligible_streams() {
  while (const auto key = order_.next()) {
    ActiveWork& work = *work_.at(key->transfer);
    work.send_over_network(key->stream);
    update(work, key->stream);
    peak_streams_ = std::max(peak_streams_, order_.num_moving());
  }
}

}  // namespace weft::transfer
