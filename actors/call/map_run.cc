#include "actors/call/map_run.h"

#include <algorithm>
#include <utility>

#include "actors/call/call_frame.h"

namespace weft::actors {

namespace {

/// Returns true if a call failed because its actor is not there. Errors of handlers name their
/// actor.
bool actor_is_lost(const Error& error) {
  if (!error.actor().empty()) return false;
  return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable ||
         error.code() == ErrorCode::kNotFound;
}

/// Returns true if a failed call has not run.
bool has_not_run(const CallState& call) {
  return !call.sent || call.error()->code() == ErrorCode::kNotFound;
}

}  // namespace

MapRun::MapRun(Setup setup, std::vector<std::vector<std::byte>> items)
    : setup_(std::move(setup)),
      calling_actor_(current_actor()),
      items_(items.size()),
      actors_(setup_.actors.size()),
      left_(items.size()) {
  for (std::size_t i = 0; i < items.size(); ++i) items_[i].arguments = std::move(items[i]);
}

std::shared_ptr<MapRun> MapRun::start(Setup setup, std::vector<std::vector<std::byte>> items) {
  if (setup.options.in_flight == 0)
    throw_error(ErrorCode::kInvalidArgument,
                "map() got in_flight 0; give it the calls per actor at a time, at least 1");
  std::shared_ptr<MapRun> run(new MapRun(std::move(setup), std::move(items)));
  if (run->items_.empty()) run->close();
  run->pump();
  return run;
}

void MapRun::pump() {
  const ActorId thread_actor = current_actor();
  std::unique_lock lock(mutex_);
  if (std::exchange(pumping_, true)) return;
  while (const auto index = take_item()) {
    const std::optional<Error> ended = ended_;
    lock.unlock();
    if (ended) {
      end_item(*index, *ended, nullptr);
    } else {
      set_current_actor(calling_actor_);
      send(*index);
      set_current_actor(thread_actor);
    }
    lock.lock();
  }
  pumping_ = false;
}

std::optional<std::size_t> MapRun::take_item() {
  const std::size_t max_untaken = 2 * setup_.options.in_flight * actors_.size();
  if (untaken_ >= max_untaken || (again_.empty() && next_ == items_.size())) return std::nullopt;
  Actor* const actor = ended_ ? nullptr : least_loaded();
  if (!ended_ && actor == nullptr) return std::nullopt;
  std::size_t index = next_;
  if (again_.empty()) {
    ++next_;
  } else {
    index = again_.front();
    again_.pop_front();
  }
  if (actor != nullptr) {
    ++actor->unanswered;
    items_[index].actor = actor - actors_.data();
  }
  return index;
}

MapRun::Actor* MapRun::least_loaded() {
  Actor* least = nullptr;
  for (Actor& actor : actors_)
    if (!actor.lost && actor.unanswered < setup_.options.in_flight &&
        (least == nullptr || actor.unanswered < least->unanswered))
      least = &actor;
  return least;
}

void MapRun::send(std::size_t index) {
  Item& item = items_[index];  // no other thread uses it before its call
  std::shared_ptr<CallState> call;
  try {
    call = setup_.call(setup_.actors[item.actor], item.arguments);
  } catch (...) {
    const Error error = current_error();
    {
      const std::lock_guard lock(mutex_);
      --actors_[item.actor].unanswered;
    }
    return end_item(index, error, nullptr);
  }
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    item.call = call;
    ended = ended_.has_value();
  }
  call->when_done([run = std::static_pointer_cast<MapRun>(shared_from_this()), index, call] {
    run->call_done(index, *call);
  });
  if (ended) call->cancel();  // cancel() did not see it
}

void MapRun::call_done(std::size_t index, CallState& call) {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    --actors_[items_[index].actor].unanswered;
    items_[index].call = nullptr;
    again = call.error() && handle_failure(index, call);
  }
  if (!again) end_item(index, call.take_result(), call.decode_context);
  pump();
}

bool MapRun::handle_failure(std::size_t index, const CallState& call) {
  if (ended_) return false;
  const Error& error = *call.error();
  if (error.code() == ErrorCode::kCancelled && error.node().empty() && error.actor().empty()) {
    ended_ = error;  // this process shuts down
    return false;
  }
  if (!actor_is_lost(error)) return false;
  Item& item = items_[index];
  // A restarted actor is lost only if its calls wait no more for the next incarnation.
  const bool restarts = setup_.actors[item.actor]->owner.id != ProcessId();
  if (!restarts || has_not_run(call)) actors_[item.actor].lost = true;
  if (std::ranges::all_of(actors_, &Actor::lost)) {
    ended_ = error;
    return false;
  }
  if (!has_not_run(call) && (!setup_.idempotent || ++item.attempts >= kMaxAttempts)) return false;
  again_.push_back(index);
  return true;
}

void MapRun::end_item(std::size_t index, Outcome<std::vector<std::byte>> result,
                      DecodeContext* context) {
  {
    const std::lock_guard lock(mutex_);
    items_[index].arguments = {};
    ++untaken_;
  }
  push({index, std::move(result), context});
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    all = --left_ == 0;
  }
  if (all) close();
}

void MapRun::on_taken() {
  {
    const std::lock_guard lock(mutex_);
    --untaken_;
  }
  pump();
}

void MapRun::cancel() {
  std::vector<std::shared_ptr<CallState>> calls;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
    if (!ended_)
      ended_ = Error(ErrorCode::kCancelled, "map() was cancelled before this item was sent");
    for (const Item& item : items_)
      if (item.call) calls.push_back(item.call);
  }
  // The last ones first, so that no actor begins a call whose cancellation is to follow.
  std::ranges::reverse(calls);
  for (const auto& call : calls) call->cancel();
  pump();
}

}  // namespace weft::actors
