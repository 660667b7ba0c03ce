#include "actors/system/internal/relocations.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {

std::optional<ActorAddress> Relocations::current(const ActorAddress& address, Waiting waiting) {
  const std::lock_guard lock(mutex_);
  ActorAddress now = address;
  while (true) {
    const auto found = restarts_.find(ActorKey::of(now));
    if (found == restarts_.end()) return now;
    Restart& restart = found->second;
    if (!restart.end) {
      if (restart.waiting.size() >= kMaxWaiting)
        std::erase_if(restart.waiting, [](const Waiting& each) {
          const auto call = each.call.lock();
          return call && call->done();
        });
      if (restart.waiting.size() >= kMaxWaiting)
        throw_error(ErrorCode::kResourceExhausted,
                    "{} calls wait already for the restart of {}; await results before calling "
                    "again",
                    kMaxWaiting, address.label);
      restart.waiting.push_back(std::move(waiting));
      return std::nullopt;
    }
    now = restart.end->value();  // throws the reason of a loss
  }
}

ActorAddress Relocations::last_known(const ActorAddress& address) const {
  const std::lock_guard lock(mutex_);
  ActorAddress now = address;
  while (true) {
    const auto found = restarts_.find(ActorKey::of(now));
    if (found == restarts_.end() || !found->second.end || !found->second.end->ok()) return now;
    now = found->second.end->value();
  }
}

std::optional<ActorAddress> Relocations::settled(const ActorAddress& address) const {
  const std::lock_guard lock(mutex_);
  ActorAddress now = address;
  while (true) {
    const auto found = restarts_.find(ActorKey::of(now));
    if (found == restarts_.end()) return now;
    if (!found->second.end || !found->second.end->ok()) return std::nullopt;
    now = found->second.end->value();
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

void Relocations::confirm_all_of(ProcessId process) {
  const std::lock_guard lock(mutex_);
  for (const ActorKey& actor : watched_)
    if (actor.process == process) restarts_[actor].confirmed = true;
}

void Relocations::finish(const ActorKey& actor, const Outcome<ActorAddress>& now) {
  std::optional<Error> exit;
  {
    const std::lock_guard lock(mutex_);
    if (watched_.erase(actor) > 0 && now.ok()) exit = watch_or_end(ActorKey::of(now.value()));
  }
  run_waiting(actor, now, Trace::kKept);
  if (exit) run_waiting(ActorKey::of(now.value()), *exit, Trace::kKept);
}

void Relocations::finish_unmoved(const ActorAddress& actor) {
  run_waiting(ActorKey::of(actor), actor, Trace::kErased);
}

void Relocations::withdraw(const ActorAddress& actor) {
  run_waiting(ActorKey::of(actor), actor, Trace::kErasedUnlessConfirmed);
}

void Relocations::abandon(const ActorKey& actor, const Error& why) {
  run_waiting(actor, why, Trace::kErasedUnlessConfirmed);
}

void Relocations::run_waiting(const ActorKey& actor, const Outcome<ActorAddress>& now,
                              Trace trace) {
  // Calls that arrive meanwhile wait behind those that are sent here. If no trace is kept, a call
  // that fails again begins the next restart.
  while (true) {
    std::vector<Waiting> waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto found = restarts_.find(actor);
      if (found == restarts_.end() || found->second.end) return;
      if (trace == Trace::kErasedUnlessConfirmed && found->second.confirmed) return;
      waiting = std::exchange(found->second.waiting, {});
      if (trace != Trace::kKept) restarts_.erase(found);
      else if (waiting.empty()) {
        found->second.end = now;
        return;
      }
    }
    std::ranges::stable_sort(waiting, {}, &Waiting::sequence);
    for (const Waiting& each : waiting) each.then(now);
    if (trace != Trace::kKept) return;
  }
}

void Relocations::watch(const ActorKey& actor) {
  std::optional<Error> exit;
  {
    const std::lock_guard lock(mutex_);
    exit = watch_or_end(actor);
  }
  if (exit) run_waiting(actor, *exit, Trace::kKept);
}

std::optional<Error> Relocations::watch_or_end(const ActorKey& actor) {
  auto exit = early_exits_.extract(actor);
  if (exit.empty()) {
    watched_.insert(actor);
    return std::nullopt;
  }
  std::erase(early_exit_order_, actor);
  restarts_[actor].confirmed = true;
  return std::move(exit.mapped());
}

void Relocations::unwatch(const ActorKey& actor, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    watched_.erase(actor);
  }
  run_waiting(actor, why, Trace::kKept);
}

void Relocations::end(const ActorKey& actor, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (watched_.erase(actor) == 0) {
      // An actor that has ended is reported once more to an owner that was started again.
      if (restarts_.contains(actor) || !early_exits_.emplace(actor, why).second) return;
      early_exit_order_.push_back(actor);
      if (early_exit_order_.size() <= kMaxEarlyExits) return;
      early_exits_.erase(early_exit_order_.front());
      return early_exit_order_.pop_front();
    }
    restarts_[actor].confirmed = true;
  }
  run_waiting(actor, why, Trace::kKept);
}

void Relocations::lose(const ActorKey& actor, const Error& why) {
  confirm(actor);
  run_waiting(actor, why, Trace::kKept);
}

bool Relocations::ended(const ActorKey& actor) const {
  const std::lock_guard lock(mutex_);
  const auto found = restarts_.find(actor);
  return found != restarts_.end() && found->second.end && !found->second.end->ok();
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
