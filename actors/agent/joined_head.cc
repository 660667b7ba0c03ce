#include "actors/agent/joined_head.h"

#include "core/base/error.h"

namespace weft::actors {

void JoinedHead::complete(ProcessRef head, std::uint64_t term, std::int64_t grace_ns) {
  joined_ = next_ = std::move(head);
  term_ = term;
  grace_ns_ = grace_ns;
}

void JoinedHead::check(const ProcessRef& caller, std::uint64_t term) const {
  if (term < term_)
    throw_error(ErrorCode::kStaleEpoch,
                "host {} rejected a request of an old head: term {} has replaced term {}; stop the "
                "old head",
                host_, term_, term);
  if (caller.id != joined_.id && caller.id != next_.id)
    throw_error(ErrorCode::kFailedPrecondition,
                "host {} rejected the request: it accepts it from its cluster's head only, and {} "
                "is not that head",
                host_, caller.name);
}

}  // namespace weft::actors
