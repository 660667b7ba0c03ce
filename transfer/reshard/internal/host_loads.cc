#include "transfer/reshard/internal/host_loads.h"

#include <algorithm>

namespace weft::transfer::internal {
namespace {

/// Weight of receiving in a host's load. A host that always receives counts as if it sent that much
/// more, because a real relay sends less than a fluid; see OrderCandidate::kRelayPenalty.
constexpr double kReceivePenalty = 0.6;

}  // namespace

HostLoads host_loads(const WeftProblem& problem, const std::vector<Piece>& pieces) {
  HostLoads loads;
  std::vector<double> sent(problem.network.num_hosts()), received(problem.network.num_hosts());
  double all = 0, held = 0;
  for (const Piece& piece : pieces) {
    const HostDemand& datum = problem.demand.data[piece.datum];
    const double bytes = piece.bytes;
    for (std::size_t i = 0; i < piece.degrees.size(); ++i) {
      const bool holds = i < datum.holders.size();
      const HostId host = holds ? datum.holders[i] : datum.receivers[i - datum.holders.size()];
      sent[host.value()] += bytes * piece.degrees[i] / problem.network.host(host).egress();
      if (!holds) received[host.value()] += bytes / problem.network.host(host).ingress();
      all += bytes * piece.degrees[i];
      if (holds) held += bytes * piece.degrees[i];
    }
  }
  loads.relayed = all > 0 ? 1 - held / all : 0;
  loads.busy.resize(sent.size());
  if (problem.limit.seconds <= 0) return loads;
  for (std::size_t host = 0; host < sent.size(); ++host)
    loads.busy[host] = sent[host] / problem.limit.seconds *
                       (1 + kReceivePenalty * received[host] / problem.limit.seconds);
  loads.has_spare_sender = std::any_of(loads.busy.begin(), loads.busy.end(), [](double busy) {
    return busy > 0 && busy < HostLoads::kSpareThreshold;
  });
  loads.has_urgent_sender =
      loads.has_spare_sender && std::any_of(loads.busy.begin(), loads.busy.end(), [](double busy) {
        return busy > HostLoads::kUrgentThreshold;
      });
  return loads;
}

}  // namespace weft::transfer::internal
