#include "transfer/reshard/strategy.h"

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::transfer {

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::kSendRecv: return "send_recv";
    case Strategy::kLocalAllgather: return "local_allgather";
    case Strategy::kBroadcast: return "broadcast";
  }
  WEFT_CHECK(false, "strategy {}", static_cast<int>(strategy));
}

Strategy parse_strategy(std::string_view name) {
  for (const Strategy strategy : kStrategies) {
    if (to_string(strategy) == name) return strategy;
  }
  throw_error(ErrorCode::kInvalidArgument, "there is no resharding strategy '{}'; choose send_recv, local_allgather or broadcast",
              name);
}

}  // namespace weft::transfer
