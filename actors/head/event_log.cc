#include "actors/head/event_log.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace weft::actors {
namespace {

constexpr std::uint32_t kMaxEvents = 1000;  // Limit per reply.

ClusterEvent event_now(std::string text) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), std::move(text)};
}

}  // namespace

void EventLog::record(std::string text, const std::string& logged) {
  ClusterEvent event = event_now(std::move(text));
  store_.add_event(event);
  if (!logged.empty()) event.text = logged;
  on_event_(event);
}

void EventLog::record_unlogged(std::string text) { store_.add_event(event_now(std::move(text))); }

ClusterEvents EventLog::read(const EventsRequest& request) const {
  const std::uint64_t count = store_.event_count();
  const std::uint32_t limit = std::min(request.limit, kMaxEvents);
  // A number from a head with another state may exceed the count: reads from the beginning then.
  const std::uint64_t after = request.after.value_or(count - std::min<std::uint64_t>(limit, count));
  return store_.events_after(after > count ? 0 : after, limit);
}

}  // namespace weft::actors
