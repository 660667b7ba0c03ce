#include "transfer/reshard/reshard_algorithm.h"

#include <string>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::transfer {

std::string_view to_string(ReshardAlgorithm strategy) {
  switch (strategy) {
    case ReshardAlgorithm::kSendRecv: return "send_recv";
    case ReshardAlgorithm::kLocalAllgather: return "local_allgather";
    case ReshardAlgorithm::kGlobalAllgather: return "global_allgather";
    case ReshardAlgorithm::kBroadcastNaive: return "broadcast_naive";
    case ReshardAlgorithm::kBroadcast: return "broadcast";
    case ReshardAlgorithm::kBroadcastGreedy: return "broadcast_greedy";
    case ReshardAlgorithm::kBroadcastSearch: return "broadcast_search";
    case ReshardAlgorithm::kWeft: return "weft";
  }
  WEFT_CHECK(false, "strategy {}", static_cast<int>(strategy));
}

ReshardAlgorithm parse_strategy(std::string_view name) {
  std::string choices;
  for (const ReshardAlgorithm strategy : kStrategies) {
    if (to_string(strategy) == name) return strategy;
    choices += choices.empty() ? "" : strategy == kStrategies.back() ? " or " : ", ";
    choices += to_string(strategy);
  }
  throw_error(ErrorCode::kInvalidArgument, "there is no resharding strategy '{}'; choose {}", name,
              choices);
}

}  // namespace weft::transfer
