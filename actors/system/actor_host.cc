#include "actors/system/actor_host.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/message/message_frames.h"
#include "actors/supervision/silence_timer.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/crash/crash_report.h"

namespace weft::actors {
namespace {

/// Marks a thread as one that must not block, as it runs completion callbacks of calls. Restores
/// the mark at its end.
class NoBlocking final {
 public:
  NoBlocking() { set_on_actor_thread(true); }
  ~NoBlocking() { set_on_actor_thread(before_); }
  NoBlocking(const NoBlocking&) = delete;
  NoBlocking& operator=(const NoBlocking&) = delete;

 private:
  const bool before_ = on_actor_thread();
};

}  // namespace

/// Running call. reply() adds this actor's name to errors that name none.
class ActorHost::Frame final : public CallFrame {
 public:
  Frame(const ActorHost& host, Envelope envelope)
      : CallFrame(host.mailbox_, std::move(envelope), host.context_.decode_context()),
        host_(host) {}

  /// Returns a snapshot of the call. Any thread.
  RunningHandler survey(TimePoint now) const {
    const Call& call = envelope().call;
    RunningHandler running{host_.options_.provider.methods[call.method].name,
                           envelope().route->peer(),
                           in_seconds(now - began_),
                           std::nullopt,
                           has_thread.load(std::memory_order_relaxed),
                           cancelled(),
                           waits_for_reader()};
    if (envelope().deadline != TimePoint::max())
      running.seconds_left = in_seconds(envelope().deadline - now);
    return running;
  }
  /// True while the call runs on the actor's thread.
  std::atomic<bool> has_thread{false};

  void reply(Outcome<std::vector<std::byte>> result) override {
    if (std::exchange(replied_, true)) return;
    send_values();
    const std::uint64_t id = envelope().call.id;
    const ActorAddress& self = host_.options_.self;
    // A caller in this process is answered on this thread.
    const NoBlocking callbacks;
    const bool is_too_large = result.ok() && result.value().size() > kMaxMessageBytes;
    if (is_too_large)
      result =
          Error(ErrorCode::kResourceExhausted,
                fmt::format("the result of '{}' takes {}; the limit is {}: tensors and files "
                            "travel by transfer, not in replies",
                            host_.options_.provider.methods[envelope().call.method].name,
                            format_bytes(result.value().size()), format_bytes(kMaxMessageBytes)));
    if (result.ok()) {
      if (id != 0)
        envelope().route->reply({id, std::move(result).value()}, host_.mailbox_->has_more());
      return;
    }
    Error error = host_.with_origin(result.error());
    const bool interrupted = cancelled() && host_.is_replaced();
    if (interrupted)
      error = Error(ErrorCode::kStaleEpoch,
                    fmt::format("{} was stopped for a restart while the call ran: {}", self.label,
                                error.message()))
                  .from(self.process.name, self.label);
    if (id != 0)
      envelope().route->reply({id, error,
                               interrupted    ? ReplyState::kInterrupted
                               : is_too_large ? ReplyState::kResultLost
                                              : ReplyState::kAnswered},
                              host_.mailbox_->has_more());
    else
      host_.options_.log.error("{}: the one-way call '{}' failed: {}", self.label,
                               host_.options_.provider.methods[envelope().call.method].name,
                               error.describe());
  }

 private:
  const ActorHost& host_;
  const TimePoint began_ = SteadyClock().now();
};

/// Run of a `blocking` handler on a thread of its own.
class ActorHost::BlockingCall final : public ActorThreads::Work {
 public:
  BlockingCall(std::shared_ptr<ActorHost> host, std::shared_ptr<Frame> frame)
      : host_(std::move(host)), frame_(std::move(frame)) {}

  void run() override {
    set_current_actor(host_->self().actor);
    set_blocking_call(frame_.get());
    if (const auto problem = host_->find_late_problem(*frame_)) frame_->reply(*problem);
    else host_->invoke(*frame_);
    set_blocking_call(nullptr);
    set_current_actor(ActorId());
    // The handle only says that the wait is over.
    host_->mailbox()->resume({std::noop_coroutine(), frame_.get()});
  }

 private:
  // shared with the actors of the process and with suspended_: both may end first
  const std::shared_ptr<ActorHost> host_;
  const std::shared_ptr<Frame> frame_;
};

ActorHost::ActorHost(System& system, Options options)
    : options_(std::move(options)),
      context_(system, *this, options_.self, options_.place),
      mailbox_(std::make_shared<Mailbox>(options_.self.actor, options_.limits,
                                         options_.thread == ActorThread::kOwn
                                             ? std::function<void()>()
                                             : [this] {
                                                 // The actor cannot end before this turn.
                                                 options_.threads.run(shared_from_this());
                                               })),
      owner_(options_.owner) {}

ActorHost::~ActorHost() { join(); }

void ActorHost::start(std::vector<std::byte> arguments,
                      std::function<void(Outcome<std::vector<std::byte>>)> constructed,
                      std::function<void()> ended) {
  when_ended(std::move(ended));
  construction_ = std::make_unique<Construction>();
  *construction_ = {std::move(arguments), std::move(constructed)};
  if (options_.thread == ActorThread::kShared) return options_.threads.run(shared_from_this());
  // Held until thread_ is set: the loop may join an actor that ends at once.
  const std::lock_guard starting(mutex_);
  thread_ =
      Thread(options_.self.label, ThreadPriority::kOrdinary, [this, keep = shared_from_this()] {
        set_on_actor_thread();
        set_current_actor(options_.self.actor);
        construct();
        while (!served()) {
          report_credit();
          take(mailbox_->next(startable()));
        }
        end();
      });
}

void ActorHost::run() {
  set_current_actor(options_.self.actor);
  if (construction_) construct();
  for (int items = 0; items < kItemsPerTurn && !served(); ++items) {
    report_credit();
    auto item = mailbox_->try_next(startable());
    // From here on, another thread may have the next turn.
    if (!item) return set_current_actor(ActorId());
    take(std::move(*item));
  }
  if (served()) end();
  else options_.threads.run(shared_from_this());
  set_current_actor(ActorId());
}

void ActorHost::construct() {
  const auto construction = std::exchange(construction_, nullptr);
  try {
    object_ = options_.provider.make(context_, construction->arguments);
  } catch (...) {
    const Error error = with_origin(current_error());
    stopped_ = true;
    refuse_waiting();
    return construction->constructed(error);
  }
  construction->constructed(encode(options_.self));
}

void ActorHost::end() {
  abandon_suspended();
  refuse_waiting();
  object_.reset();
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    callbacks = std::move(when_ended_);
  }
  for (const auto& callback : callbacks) callback();
}

Error ActorHost::with_origin(Error error) const {
  if (error.node().empty() && error.actor().empty())
    return std::move(error).from(options_.self.process.name, options_.self.label);
  return error;
}

void ActorHost::report_credit() {
  mailbox_->drain_credit_reports(reports_);
  for (const CreditReport& report : reports_) report.route->grant(report.credit);
  reports_.clear();
}

void ActorHost::take(Mailbox::Item item) {
  if (auto* envelope = std::get_if<Envelope>(&item)) {
    begin(std::move(*envelope));
  } else if (auto* resumption = std::get_if<Resumption>(&item)) {
    if (resumption->handle) resume_handler(*resumption);
    else abandon();
  } else if (auto* task = std::get_if<Mailbox::Task>(&item)) {
    run_task(*task);
  } else {
    stopped_ = true;
    refuse_waiting();
  }
}

void ActorHost::run_task(const Mailbox::Task& task) {
  try {
    task();
  } catch (...) {
    options_.log.error("{}: a posted task failed: {}", options_.self.label,
                       current_error().describe());
  }
}

void ActorHost::abandon() {
  abandoning_ = true;
  // A `blocking` handler that called exit() was spared, and must end before the actor does.
  begin_stop(nullptr, std::nullopt);
}

void ActorHost::abandon_suspended() {
  for (const auto& frame : suspended_) {
    frame->reply(
        Error(ErrorCode::kCancelled, "the actor was stopped, and this call did not end in time"));
    frame->release();
  }
  suspended_.clear();
  const std::lock_guard lock(mutex_);
  running_.clear();
}

Mailbox::Ordinary ActorHost::startable() const {
  if (blocking_) return Mailbox::Ordinary::kNoTasks;
  if (stopped_ || alone_ > 0 || concurrent_ >= kMaxConcurrent ||
      (concurrent_ > 0 && concurrent_bytes_ >= options_.limits.bytes))
    return Mailbox::Ordinary::kNone;
  return concurrent_ > 0 ? Mailbox::Ordinary::kConcurrent : Mailbox::Ordinary::kAll;
}

std::optional<Error> ActorHost::find_problem(const Envelope& envelope) const {
  const Call& call = envelope.call;
  const Provider& provider = options_.provider;
  if (call.interface_fingerprint != provider.interface.fingerprint ||
      call.method >= provider.methods.size() || provider.methods[call.method].urgent != call.urgent)
    return Error(
        ErrorCode::kIncompatible,
        fmt::format("{} has interface '{}' version {} (fingerprint {:016x}), and was called "
                    "through another (fingerprint {:016x}); "
                    "build caller and callee from the same source",
                    options_.self.label, provider.interface.name, provider.interface.version,
                    provider.interface.fingerprint, call.interface_fingerprint));
  if (envelope.deadline != TimePoint::max() && SteadyClock().now() > envelope.deadline)
    return Error(
        ErrorCode::kDeadlineExceeded,
        fmt::format(
            "the call '{}' waited in the mailbox of {} until its deadline and was not started",
            provider.methods[call.method].name, options_.self.label));
  return std::nullopt;
}

std::optional<Error> ActorHost::find_late_problem(const Frame& frame) const {
  if (frame.cancelled())
    return Error(ErrorCode::kCancelled, fmt::format("the call '{}' was cancelled before a thread "
                                                    "was free, and was not started",
                                                    method_of(frame).name));
  return find_problem(frame.envelope());
}

void ActorHost::begin(Envelope envelope) {
  if (auto problem = find_problem(envelope)) {
    if (envelope.call.id != 0)
      envelope.route->reply(
          {envelope.call.id,
           std::move(*problem).from(options_.self.process.name, options_.self.label),
           ReplyState::kRefused},
          false);
    return;
  }
  const auto frame = std::make_shared<Frame>(*this, std::move(envelope));
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    running_.push_back(frame);
    stopping = stopping_;
  }
  // An earlier cancel() found the call neither waiting nor running.
  if (stopping || mailbox_->last_was_cancelled()) frame->cancel();
  if (method_of(*frame).blocking) {
    blocking_ = true;
    suspended(frame);
    options_.blocking_threads.run(std::make_shared<BlockingCall>(shared_from_this(), frame));
    return;
  }
  current_ = frame.get();
  invoke(*frame);
  current_ = nullptr;
  // An earlier cancel_generators_of() did not know that this is one.
  if (mailbox_->last_lost_its_sender() && frame->has_values()) frame->cancel();
  if (frame->suspended()) suspended(frame);
  else finished(frame);
}

const MethodEntry& ActorHost::method_of(const Frame& frame) const {
  return options_.provider.methods[frame.envelope().call.method];
}

void ActorHost::invoke(Frame& frame) {
  const MethodEntry& method = method_of(frame);
  frame.has_thread = true;
  const CrashContext inside(method.name, options_.self.label.c_str());
  try {
    method.invoke(object_.get(), frame);
  } catch (...) {
    frame.reply(current_error());
  }
  frame.has_thread = false;
}

void ActorHost::resume_handler(const Resumption& resumption) {
  const auto found = std::ranges::find_if(
      suspended_, [&](const auto& each) { return each.get() == resumption.frame; });
  if (found == suspended_.end()) return;
  const std::shared_ptr<Frame> frame = *found;
  const MethodEntry& method = method_of(*frame);
  if (method.blocking) {
    blocking_ = false;
  } else {
    current_ = frame.get();
    frame->has_thread = true;
    const CrashContext inside(method.name, options_.self.label.c_str());
    frame->resume(resumption.handle);
    frame->has_thread = false;
    current_ = nullptr;
    if (frame->suspended()) return;
  }
  resumed(frame);
  finished(frame);
}

void ActorHost::suspended(const std::shared_ptr<Frame>& frame) {
  suspended_.push_back(frame);
  const MethodEntry& method = method_of(*frame);
  if (!method.urgent) ++(method.concurrent ? concurrent_ : alone_);
  if (method.concurrent) concurrent_bytes_ += frame->arguments().size();
}

void ActorHost::resumed(const std::shared_ptr<Frame>& frame) {
  std::erase(suspended_, frame);
  const MethodEntry& method = method_of(*frame);
  if (!method.urgent) --(method.concurrent ? concurrent_ : alone_);
  if (method.concurrent) concurrent_bytes_ -= frame->arguments().size();
}

void ActorHost::finished(const std::shared_ptr<Frame>& frame) {
  frame->release();
  const std::lock_guard lock(mutex_);
  std::erase(running_, frame);
}

void ActorHost::refuse_waiting() {
  const auto waiting = mailbox_->close();
  if (waiting.empty()) return;
  const auto reason = exit_reason();
  const Error refusal =
      reason ? ended_error(options_.self.label, *reason)
      : is_replaced()
          ? replaced_error(options_.self.label)
          : Error(ErrorCode::kCancelled,
                  fmt::format("{} was stopped; the call was not started", options_.self.label));
  for (const Envelope& envelope : waiting)
    if (envelope.call.id != 0)
      envelope.route->reply(
          {envelope.call.id, Error(refusal).from(options_.self.process.name, options_.self.label),
           ReplyState::kRefused},
          true);
}

void ActorHost::cancel(const ReturnRoute* route, std::uint64_t call_id) {
  if (auto waiting = mailbox_->cancel(route, call_id)) {
    waiting->route->reply({call_id, Error(ErrorCode::kCancelled, "cancelled before it was started"),
                           ReplyState::kRefused},
                          true);
    return;
  }
  if (const auto frame = find_running(route, call_id)) frame->cancel();
}

std::shared_ptr<ActorHost::Frame> ActorHost::find_running(const ReturnRoute* route,
                                                          std::uint64_t call_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(running_, [&](const auto& each) {
    return each->envelope().route.get() == route && each->envelope().call.id == call_id;
  });
  return found == running_.end() ? nullptr : *found;
}

void ActorHost::grant_values(const ReturnRoute* route, const Pull& pull) {
  if (const auto frame = find_running(route, pull.id))
    frame->grant(pull.consumed_values, pull.consumed_bytes);
}

void ActorHost::cancel_generators_of(const ReturnRoute* route) {
  std::vector<std::shared_ptr<Frame>> frames;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& each : running_)
      if (each->envelope().route.get() == route && each->has_values()) frames.push_back(each);
  }
  for (const auto& frame : frames) frame->cancel();
}

void ActorHost::cancel_calls_of(ProcessId process) {
  std::vector<std::shared_ptr<Frame>> frames;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& each : running_)
      if (each->envelope().route->peer().id == process) frames.push_back(each);
  }
  for (const auto& frame : frames) frame->cancel();
}

ProcessRef ActorHost::owner_process() const {
  const std::lock_guard lock(mutex_);
  return owner_;
}

ProcessId ActorHost::change_owner(ProcessRef owner) {
  const std::lock_guard lock(mutex_);
  return std::exchange(owner_, std::move(owner)).id;
}

Error replaced_error(const std::string& label) {
  return Error(ErrorCode::kStaleEpoch,
               fmt::format("{} is being restarted; the call was not started", label));
}

Error ended_error(const std::string& label, const std::string& reason) {
  return Error(ErrorCode::kNotFound,
               fmt::format("{} has ended: {}; the call was not started", label, reason));
}

void ActorHost::stop() { begin_stop(nullptr, std::nullopt); }

void ActorHost::stop_for_restart() { begin_stop(nullptr, std::nullopt, true); }

bool ActorHost::is_replaced() const {
  const std::lock_guard lock(mutex_);
  return replaced_;
}

void ActorHost::exit(const std::string& reason) { begin_stop(current_call(), reason); }

std::optional<std::string> ActorHost::exit_reason() const {
  const std::lock_guard lock(mutex_);
  return exit_reason_;
}

void ActorHost::begin_stop(const CallFrame* spared, const std::optional<std::string>& exit_reason,
                           bool is_restart) {
  std::vector<std::shared_ptr<Frame>> running;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !std::exchange(stopping_, true);
    // A stop() after an exit() cancels the call that the exit() spared.
    if (!first && exit_reason) return;
    if (first) exit_reason_ = exit_reason;
    if (first) replaced_ = is_restart;
    running = running_;
  }
  if (first) {
    stop_source_.request_stop();
    mailbox_->request_stop();  // first, so that no waiting call begins when another one ends
  }
  for (const auto& frame : running)
    if (frame.get() != spared) frame->cancel();
  if (!first) return;
  options_.timers.run_after(kStopGrace, [mailbox = mailbox_] { mailbox->resume({}); });
}

void ActorHost::when_ended(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      when_ended_.push_back(std::move(then));
      return;
    }
  }
  then();
}

bool ActorHost::wait_ended(Nanoseconds within) const {
  // Time in which this process was stopped does not count: the actor did not run either.
  constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(100);
  const SteadyClock clock;
  SilenceTimer watched(kLookEvery);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookEvery, [this] { return ended_; }))
    if (watched.update(clock.now()) > within) return false;
  return true;
}

bool ActorHost::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void ActorHost::on_report(std::function<std::vector<std::byte>()> report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

std::optional<std::vector<std::byte>> ActorHost::report() const {
  std::function<std::vector<std::byte>()> report;
  {
    const std::lock_guard lock(mutex_);
    report = report_;
  }
  return report ? std::optional(report()) : std::nullopt;
}

std::uint64_t ActorHost::add_decider(Decider decide) {
  const std::lock_guard lock(mutex_);
  deciders_.emplace(++last_decider_, std::move(decide));
  return last_decider_;
}

void ActorHost::forget_decider(std::uint64_t id) {
  Decider forgotten;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = deciders_.find(id);
  if (found == deciders_.end()) return;
  forgotten = std::move(found->second);
  deciders_.erase(found);
}

ActorHost::Decider ActorHost::decider(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = deciders_.find(id);
  return found == deciders_.end() ? nullptr : found->second;
}

void ActorHost::on_activity(std::function<ActorActivity()> activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

ActorSurvey ActorHost::survey(TimePoint now) const {
  ActorSurvey survey{options_.self.actor, options_.self.label, {}, mailbox_->waiting(), {}};
  std::function<ActorActivity()> activity;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& frame : running_) survey.running.push_back(frame->survey(now));
    activity = activity_;
  }
  if (activity) survey.activity = activity();
  return survey;
}

void ActorHost::join() {
  if (!thread_.joinable()) return;
  if (thread_.is_current()) thread_.detach();
  else thread_.join();
}

}  // namespace weft::actors
