#include "actors/call/map_run.h"

#include <algorithm>
#include <utility>

#include "actors/call/call_frame.h"

namespace weft::actors {

namespace {

/// Returns true if a call failed because its actor is not there, has ended or is stopping.
bool actor_is_lost(const CallState& call) {
  const ErrorCode code = call.error()->code();
  const CallProgress progress = call.error()->progress();
  if (progress == CallProgress::kFailed || progress == CallProgress::kReplyLost) return false;
  if (code == ErrorCode::kCancelled) return progress == CallProgress::kNotStarted;
  return code == ErrorCode::kPeerDied || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kNotFound;
}

/// Returns true if a failed call has not run.
bool has_not_run(const CallState& call) {
  const CallProgress progress = call.error()->progress();
  return progress == CallProgress::kNotSent || progress == CallProgress::kNotStarted;
}

/// Returns true if a call was not started because too many calls wait for its actor.
bool has_no_room(const CallState& call) {
  return call.error() && call.error()->code() == ErrorCode::kResourceExhausted && has_not_run(call);
}

/// Makes this thread call as an actor does, until destroyed: in its name, and without blocking.
class CallingAs final {
 public:
  explicit CallingAs(ActorId actor) {
    set_current_actor(actor);
    set_on_actor_thread();
  }
  ~CallingAs() {
    set_current_actor(actor_before_);
    set_on_actor_thread(was_actor_thread_);
  }
  CallingAs(const CallingAs&) = delete;
  CallingAs& operator=(const CallingAs&) = delete;

 private:
  const ActorId actor_before_ = current_actor();
  const bool was_actor_thread_ = on_actor_thread();
};

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
  std::unique_lock lock(mutex_);
  while (begin_turn()) {
    // Ends early if another thread takes over.
    for (const std::uint64_t turn = turn_; turn == turn_;) {
      const auto index = take_item();
      if (!index) {
        pumping_ = false;
        return;
      }
      std::optional<Error> unsent;
      if (ended_) unsent = error_of_unsent(items_[*index]);
      else ++sent_in_turn_;
      lock.unlock();
      if (unsent) end_item(*index, std::move(*unsent), nullptr);
      else send(*index);
      lock.lock();
    }
  }
}

bool MapRun::begin_turn() {
  if (pumping_ && sent_in_turn_ < setup_.options.in_flight * actors_.size()) return false;
  pumping_ = true;
  sent_in_turn_ = 0;
  ++turn_;
  return true;
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
    if (!actor.lost && !actor.full && actor.unanswered < setup_.options.in_flight &&
        (least == nullptr || actor.unanswered < least->unanswered))
      least = &actor;
  return least;
}

void MapRun::send(std::size_t index) {
  Item& item = items_[index];  // no other thread uses it before its call
  std::shared_ptr<CallState> call;
  try {
    const CallingAs caller(calling_actor_);
    call = setup_.call(setup_.actors[item.actor], item.arguments);
  } catch (...) {
    Error error = current_error().with(CallProgress::kNotSent);
    {
      const std::lock_guard lock(mutex_);
      --actors_[item.actor].unanswered;
    }
    return end_item(index, std::move(error), nullptr);
  }
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    item.call = call;
    ended = ended_.has_value();
  }
  if (call->done()) return take_result(index, *call);  // this thread is in pump() already
  call->when_done([run = std::static_pointer_cast<MapRun>(shared_from_this()), index, call] {
    run->call_done(index, *call);
  });
  if (ended) call->cancel();  // cancel() did not see it
}

void MapRun::call_done(std::size_t index, CallState& call) {
  take_result(index, call);
  pump();
}

void MapRun::take_result(std::size_t index, CallState& call) {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    --actors_[items_[index].actor].unanswered;
    items_[index].call = nullptr;
    if (!has_no_room(call)) clear_full();
    again = call.error() && handle_failure(index, call);
  }
  if (!again) end_item(index, call.take_result(), call.decode_context);
}

void MapRun::clear_full() {
  for (Actor& actor : actors_) actor.full = false;
}

bool MapRun::handle_failure(std::size_t index, const CallState& call) {
  if (ended_) return false;
  const Error& error = *call.error();
  const bool is_answered = error.progress() == CallProgress::kNotStarted ||
                           error.progress() == CallProgress::kFailed ||
                           error.progress() == CallProgress::kReplyLost;
  if (error.code() == ErrorCode::kCancelled && !is_answered) {
    ended_ = Error(error.code(), call.reason());  // this process shuts down
    return false;
  }
  if (has_no_room(call)) return wait_for_room(index);
  if (!actor_is_lost(call)) return false;
  const bool not_run = has_not_run(call);
  Item& item = items_[index];
  const bool restarts = setup_.actors[item.actor]->owner.id != ProcessId();
  // A restarted actor is lost only if its calls wait no more for the next incarnation. One that
  // stops may come back.
  const bool may_return = restarts && (!not_run || error.code() == ErrorCode::kCancelled);
  if (!may_return) actors_[item.actor].lost = true;
  if (std::ranges::all_of(actors_, &Actor::lost)) {
    ended_ = Error(error.code(), "no actor is left: " + call.reason())
                 .at(error.where())
                 .from(error.node(), error.actor());
    return false;
  }
  // The system has sent the call of a restarted actor again already, as often as it may.
  if (!not_run && (restarts || !setup_.idempotent)) return false;
  if ((!not_run || may_return) && ++item.attempts >= kMaxAttempts) return false;
  item.may_have_run |= !not_run;
  again_.push_back(index);
  return true;
}

bool MapRun::wait_for_room(std::size_t index) {
  actors_[items_[index].actor].full = true;
  const bool others = std::ranges::any_of(actors_, [](const Actor& actor) {
    return actor.unanswered > 0 || (!actor.lost && !actor.full);
  });
  // Without a call under way or a result to take, nothing would wake the item.
  if (!others && untaken_ == 0) return false;
  again_.push_back(index);
  return true;
}

Error MapRun::error_of_unsent(const Item& item) const {
  return Error(ended_->code(),
               (item.may_have_run ? "this item may have run, and was not sent again: "
                                  : "this item was not sent: ") +
                   ended_->message())
      .at(ended_->where())
      .from(ended_->node(), ended_->actor())
      .with(item.may_have_run ? CallProgress::kMayHaveStarted : CallProgress::kNotSent);
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

void MapRun::on_taken(const Completion&) {
  {
    const std::lock_guard lock(mutex_);
    --untaken_;
    clear_full();
  }
  pump();
}

void MapRun::cancel() {
  std::vector<std::shared_ptr<CallState>> calls;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
    if (!ended_) ended_ = Error(ErrorCode::kCancelled, "map() was cancelled");
    for (const Item& item : items_)
      if (item.call) calls.push_back(item.call);
  }
  // The last ones first, so that no actor begins a call whose cancellation is to follow.
  std::ranges::reverse(calls);
  for (const auto& call : calls) call->cancel();
  pump();
}

}  // namespace weft::actors
