#include "actors/system/internal/relocations.h"

#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {

std::optional<ActorAddress> Relocations::current(const ActorAddress& address, Then then) {
  const std::lock_guard lock(mutex_);
  ActorAddress now = address;
  while (true) {
    const auto found = restarts_.find(ActorKey::of(now));
    if (found == restarts_.end()) return now;
    Restart& restart = found->second;
    if (!restart.end) {
      if (restart.waiting.size() >= kMaxWaiting)
        throw_error(ErrorCode::kResourceExhausted,
                    "{} calls wait already for the restart of {}; await results before calling "
                    "again",
                    kMaxWaiting, address.label);
      restart.waiting.push_back(std::move(then));
      return std::nullopt;
    }
    now = restart.end->value();  // throws the reason of a loss
  }
}

bool Relocations::begin(const ActorKey& actor) {
  const std::lock_guard lock(mutex_);
  return restarts_.try_emplace(actor).second;
}

void Relocations::confirm(const ActorKey& actor) {
  const std::lock_guard lock(mutex_);
  restarts_[actor].confirmed = true;
}

void Relocations::finish(const ActorKey& actor, const Outcome<ActorAddress>& now) {
  {
    const std::lock_guard lock(mutex_);
    if (watched_.erase(actor) > 0 && now.ok()) watched_.insert(ActorKey::of(now.value()));
  }
  run_waiting(actor, now, true);
}

void Relocations::withdraw(const ActorAddress& actor) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = restarts_.find(ActorKey::of(actor));
    if (found == restarts_.end() || found->second.confirmed) return;
  }
  run_waiting(ActorKey::of(actor), actor, false);
}

void Relocations::run_waiting(const ActorKey& actor, const Outcome<ActorAddress>& now, bool keep) {
  // Calls that arrive meanwhile wait behind those that are sent here.
  while (true) {
    std::vector<Then> waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto found = restarts_.find(actor);
      if (found == restarts_.end() || found->second.end) return;
      if (found->second.waiting.empty()) {
        if (keep) found->second.end = now;
        else restarts_.erase(found);
        return;
      }
      waiting = std::exchange(found->second.waiting, {});
    }
    for (const Then& then : waiting) then(now);
  }
}

void Relocations::watch(const ActorKey& actor) {
  const std::lock_guard lock(mutex_);
  watched_.insert(actor);
}

void Relocations::unwatch(const ActorKey& actor, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    watched_.erase(actor);
  }
  run_waiting(actor, why, true);
}

bool Relocations::moved(const ActorKey& actor) const {
  const std::lock_guard lock(mutex_);
  return restarts_.contains(actor);
}

bool Relocations::watches(const ActorKey& actor) const {
  const std::lock_guard lock(mutex_);
  return watched_.contains(actor);
}

}  // namespace weft::actors
