#include "actors/call/pending.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weft::actors {

namespace {

/// Returns the end of an error's text, about the progress of a call.
std::string outcome_note(const CallState& call, CallProgress progress, bool own_line) {
  return fmt::format("{}our call '{}' {}", own_line ? "\nY" : "; y", call.method,
                     to_string(progress));
}

}  // namespace

struct Pending::Callbacks {
  struct Watching {
    const void* watcher;
    std::function<void()> then;
  };
  std::vector<std::function<void()>> then;
  std::vector<Watching> watching;
};

Pending::Pending() = default;
Pending::~Pending() = default;

bool Pending::wait_until(TimePoint until) {
  if (done()) return true;
  std::unique_lock lock(mutex_);
  waiting_ = true;
  const auto is_done = [this] { return done_.load(std::memory_order_relaxed); };
  if (until == TimePoint::max()) {
    changed_.wait(lock, is_done);
    return true;
  }
  return changed_.wait_until(lock, until, is_done);
}

void Pending::when_done(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_.load(std::memory_order_relaxed)) {
      if (!then_) {
        then_ = std::move(then);
      } else {
        if (!further_) further_ = std::make_unique<Callbacks>();
        further_->then.push_back(std::move(then));
      }
      return;
    }
  }
  then();
}

void Pending::watch(const void* watcher, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_.load(std::memory_order_relaxed)) {
      if (!further_) further_ = std::make_unique<Callbacks>();
      further_->watching.push_back({watcher, std::move(then)});
      return;
    }
  }
  then();
}

void Pending::forget(const void* watcher) {
  std::vector<Callbacks::Watching> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (!further_) return;
  const auto end = std::stable_partition(
      further_->watching.begin(), further_->watching.end(),
      [&](const Callbacks::Watching& each) { return each.watcher != watcher; });
  std::move(end, further_->watching.end(), std::back_inserter(dropped));
  further_->watching.erase(end, further_->watching.end());
}

void Pending::publish() {
  std::function<void()> then;
  std::unique_ptr<Callbacks> further;
  {
    // Notify under the lock: a waiter may destroy this object as soon as it sees done_.
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    then = std::move(then_);
    then_ = nullptr;
    further = std::move(further_);
    if (waiting_) changed_.notify_all();
  }
  if (then) then();
  if (!further) return;
  for (const auto& each : further->then) each();
  for (const auto& each : further->watching) each.then();
}

bool CallState::complete(std::vector<std::byte> reply) {
  if (!claim()) return false;
  reply_ = std::move(reply);
  publish();
  return true;
}

bool CallState::complete_combined(std::vector<std::byte> reply, std::size_t level) {
  if (!claim()) return false;
  reply_ = std::move(reply);
  level_ = static_cast<std::uint8_t>(level);
  publish();
  return true;
}

bool CallState::complete_covered() {
  if (!claim()) return false;
  covered_ = true;
  publish();
  return true;
}

bool CallState::fail(Error error) {
  const CallProgress own = error.progress();
  return fail(std::move(error), own != CallProgress::kNoCall ? own : progress());
}

bool CallState::fail(Error error, CallProgress progress) {
  if (!claim()) return false;
  error_ = std::move(error).with(progress);
  publish();
  return true;
}

void CallState::cancel() {
  if (done() || !claim()) return;
  const CallProgress now = progress();
  error_ = Error(ErrorCode::kCancelled, fmt::format("the call '{}' of {} was cancelled; it {}",
                                                    method, target->label, to_string(now)))
               .with(now);
  // First, so that whoever sees the error finds the call withdrawn.
  owner.withdraw(*this);
  publish();
}

Outcome<std::vector<std::byte>> CallState::take_result() {
  if (error_) return *error_;
  return std::move(reply_);
}

CallProgress CallState::progress() const {
  if (yielded) return CallProgress::kStarted;
  return sent ? CallProgress::kMayHaveStarted : CallProgress::kNotSent;
}

std::string CallState::reason() const {
  const std::string& text = error_->message();
  for (const bool own_line : {false, true})
    if (const std::string note = outcome_note(*this, error_->progress(), own_line);
        text.ends_with(note))
      return text.substr(0, text.size() - note.size());
  return text;
}

Error with_call_outcome(const Error& error, const CallState& call) {
  // A message of several lines ends with the log of the dead process.
  const bool lines = error.message().find('\n') != std::string::npos;
  const CallProgress progress = call.progress();
  return Error(error.code(), error.message() + outcome_note(call, progress, lines))
      .at(error.where())
      .from(error.node(), error.actor())
      .with(progress);
}

CallProgress progress_of(const std::vector<std::shared_ptr<CallState>>& calls) {
  const bool is_sent =
      std::ranges::any_of(calls, [](const auto& call) { return call->sent.load(); });
  return is_sent ? CallProgress::kMayHaveStarted : CallProgress::kNotSent;
}

std::shared_ptr<CallGroup> CallGroup::make(std::vector<std::shared_ptr<CallState>> parts,
                                           OnError on_error) {
  std::shared_ptr<CallGroup> group(new CallGroup(std::move(parts), on_error));
  if (group->parts_.empty()) {
    group->claim();
    group->publish();
  }
  for (const auto& part : group->parts_)
    part->when_done([group, raw = part.get()] { group->part_done(*raw); });
  return group;
}

void CallGroup::part_done(const CallState& part) {
  const bool last = left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  const bool failed = on_error_ == OnError::kFailFast && part.error().has_value();
  if (!last && !failed) return;
  if (!claim()) return;
  if (failed) {
    error_ = part.error();
    for (const auto& other : parts_) other->cancel();
  }
  publish();
}

void CallGroup::cancel() {
  if (done()) return;
  const bool first = claim();
  const CallProgress now = progress();
  for (const auto& part : parts_) part->cancel();
  if (!first) return;
  error_ = Error(ErrorCode::kCancelled,
                 fmt::format("the call '{}' of {} actors was cancelled before all had answered",
                             parts_.front()->method, parts_.size()))
               .with(now);
  publish();
}

}  // namespace weft::actors
