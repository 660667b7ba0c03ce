#include "mesh/program/action_list.h"

#include <algorithm>

#include "core/base/check.h"
#include "mesh/program/lanes.h"
#include "mesh/schedule/costs.h"

namespace weft::mesh {

ActionListKey list_key(const Partition& partition, std::span<const Action> members,
                       int microbatches) {
  const CompoundMembers kinds = compound_members(members);
  ActionListKey key;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Action& action = members[m];
    const std::optional<StageId> stage = stage_of(partition, action);
    WEFT_CHECK(stage.has_value(), "{} has no stage", to_string(action));
    const bool follows_forward =
        std::any_of(key.begin(), key.end(), [&](const ListedAction& earlier) {
          return earlier.kind == ActionKind::kForward && earlier.stage == *stage &&
                 earlier.microbatch == kinds[m].microbatch;
        });
    key.push_back({*stage, action.kind, action.microbatch == 0,
                   action.microbatch + 1 == microbatches, kinds[m].microbatch, follows_forward});
  }
  return key;
}

}  // namespace weft::mesh
