#include "transfer/reshard/strategy.h"

#include <string>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::transfer {

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::kSendRecv: return "send_recv";
    case Strategy::kLocalAllgather: return "local_allgather";
    case Strategy::kGlobalAllgather: return "global_allgather";
    case Strategy::kBroadcastNaive: return "broadcast_naive";
    case Strategy::kBroadcast: return "broadcast";
    case Strategy::kBroadcastGreedy: return "broadcast_greedy";
    case Strategy::kBroadcastSearch: return "broadcast_search";
    case Strategy::kWeft: return "weft";
  }
  WEFT_CHECK(false, "strategy {}", static_cast<int>(strategy));
}

Strategy parse_strategy(std::string_view name) {
  std::string choices;
  for (const Strategy strategy : kStrategies) {
    if (to_string(strategy) == name) return strategy;
    choices += choices.empty() ? "" : strategy == kStrategies.back() ? " or " : ", ";
    choices += to_string(strategy);
  }
  throw_error(ErrorCode::kInvalidArgument, "there is no resharding strategy '{}'; choose {}", name,
              choices);
}

}  // namespace weft::transfer
