#include "actors/call/call_frame.h"

namespace weft::actors {

namespace {
thread_local bool actor_thread = false;
thread_local ActorId thread_actor{};
thread_local CallFrame* thread_call = nullptr;
}  // namespace

bool on_actor_thread() { return actor_thread; }
void set_on_actor_thread(bool is_so) { actor_thread = is_so; }
ActorId current_actor() { return thread_actor; }
void set_current_actor(ActorId actor) { thread_actor = actor; }
CallFrame* blocking_call() { return thread_call; }
void set_blocking_call(CallFrame* call) { thread_call = call; }

CallFrame::~CallFrame() { release(); }

void CallFrame::release() {
  if (auto handle = std::exchange(root_.handle, nullptr)) handle.destroy();
}

void CallFrame::start(RootTask task) {
  root_ = task;
  root_.handle.promise().frame = this;
  root_.handle.resume();
}

void CallFrame::resume(std::coroutine_handle<> handle) {
  clear_cancel_callback();
  // A cancelled generator ends at its co_yield.
  if (std::exchange(at_yield_, false) && cancelled()) handle = root_.handle;
  handle.resume();
}

void CallFrame::begin_values() {
  if (envelope_.call.id == 0)
    throw_error(ErrorCode::kInvalidArgument,
                "a one-way call of a generator, whose values nobody reads; use stream()");
  const std::lock_guard lock(mutex_);
  values_ = std::make_shared<ValueSender>(mailbox_, envelope_.route, envelope_.call.id);
}

std::shared_ptr<ValueSender> CallFrame::values() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

void CallFrame::yield(std::vector<std::byte> value) { values_->add(std::move(value)); }

bool CallFrame::may_yield_on() const {
  return !cancelled() && !mailbox_->has_more() && !mailbox_->has_credit_reports() &&
         values_->has_room();
}

void CallFrame::suspend_at_yield(std::coroutine_handle<> generator) {
  at_yield_ = true;
  if (cancelled() || !values_->wait({generator, this}))
    return mailbox_->resume_later({generator, this});
  // The cancellation may have come meanwhile.
  if (!set_cancel_callback([values = values_] { values->stop_waiting(); })) values_->stop_waiting();
}

void CallFrame::grant(std::uint64_t consumed_values, std::uint64_t consumed_bytes) {
  if (const auto sender = values()) sender->grant(consumed_values, consumed_bytes);
}

bool CallFrame::waits_for_reader() const {
  const auto sender = values();
  return sender && sender->waits();
}

void CallFrame::send_values() {
  if (values_) values_->send_ready();
}

bool CallFrame::suspended() const { return root_.handle && !root_.handle.done(); }

void CallFrame::cancel() {
  std::function<void()> on_cancel;
  std::optional<std::stop_source> stop;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(cancelled_, true)) return;
    on_cancel = std::move(on_cancel_);
    on_cancel_ = nullptr;
    stop = stop_;
  }
  if (stop) stop->request_stop();
  if (on_cancel) on_cancel();
}

bool CallFrame::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

std::stop_token CallFrame::stop_token() {
  const std::lock_guard lock(mutex_);
  if (!stop_) {
    stop_.emplace();
    if (cancelled_) stop_->request_stop();
  }
  return stop_->get_token();
}

bool CallFrame::set_cancel_callback(std::function<void()> on_cancel) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  on_cancel_ = std::move(on_cancel);
  return true;
}

void CallFrame::clear_cancel_callback() {
  const std::lock_guard lock(mutex_);
  on_cancel_ = nullptr;
}

}  // namespace weft::actors
