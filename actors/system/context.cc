#include "actors/system/context.h"

#include "actors/system/actor_host.h"

namespace weft::actors {

const ProcessRef& Context::caller() const {
  const CallFrame* frame = host_.current();
  return frame ? frame->envelope().route->peer() : self_.process;
}

TimePoint Context::deadline() const {
  const CallFrame* frame = host_.current();
  return frame ? frame->envelope().deadline : TimePoint::max();
}

std::stop_token Context::stop_token() const { return host_.stop_token(); }

Poster Context::poster() const { return Poster(host_.mailbox()); }

Wakeup Context::make_wakeup() const { return Wakeup(host_.options().schedule); }

}  // namespace weft::actors
