// Surveys of the System's state, answered on the I/O thread, never on an actor's.
#include "actors/system/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "actors/supervision/proc_stat.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/internal/runtime.h"
#include "core/base/platform.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

/// Limit of the calls in one answer: a driver may call a thousand devices.
constexpr std::size_t kMaxCalls = 8192;
/// Part of a survey's time limit for the way to a process and back.
constexpr Nanoseconds kRoundTripReserve = std::chrono::milliseconds(50);

std::optional<double> seconds_left(TimePoint deadline, TimePoint now) {
  if (deadline == TimePoint::max()) return std::nullopt;
  return in_seconds(deadline - now);
}

/// Returns what a parent sees of its child, e.g. ": it is stopped (state T)"; empty for others.
std::string state_of_child(std::int64_t pid) {
  const auto child = static_cast<pid_t>(pid);
  const auto stat = pid > 0 ? read_proc_stat(child) : std::nullopt;
  if (!stat || stat->parent != process_id()) return "";
  if (stat->exiting) return ": it has exited";
  const auto stopped = find_stopped_thread(child);
  if (!stopped) return "";
  return stopped->is_main_thread ? fmt::format(": it is stopped (state {})", stopped->state)
                                 : fmt::format(": its thread {} ({}) is stopped (state {})",
                                               stopped->name, stopped->thread, stopped->state);
}

}  // namespace

/// Collector of the answers of all asked processes; replies after the last. Any thread.
class System::Impl::SurveyAnswers final {
 public:
  using Done = std::function<void(Outcome<std::vector<std::byte>>)>;
  explicit SurveyAnswers(Done done) : done_(std::move(done)) {}

  void expect() {
    const std::lock_guard lock(mutex_);
    ++left_;
  }
  void add(std::vector<ProcessSurvey> found) {
    {
      const std::lock_guard lock(mutex_);
      for (ProcessSurvey& each : found) found_.push_back(std::move(each));
      if (--left_ > 0) return;
    }
    done_(encode(found_));
  }

 private:
  const Done done_;
  Mutex mutex_;
  std::size_t left_ = 0;              // guarded by mutex_
  std::vector<ProcessSurvey> found_;  // guarded by mutex_
};

ProcessSurvey System::Impl::survey_itself() {
  const TimePoint now = SteadyClock().now();
  const PeerDescription me = introduce();
  ProcessSurvey survey;
  survey.process = me.process;
  survey.pid = me.pid;
  std::vector<std::shared_ptr<ActorHost>> all;
  {
    const std::lock_guard lock(hosts_mutex);
    for (const auto& [id, host] : hosts) all.push_back(host);
    if (ending)
      survey.ending = fmt::format("ends, for {} so far: {}",
                                  format_seconds(in_seconds(now - ending->second)), ending->first);
  }
  for (const auto& host : all) survey.actors.push_back(host->survey(now));
  for (const auto& call : pending.waiting()) {
    if (call->method == kSurveyMethod) continue;
    if (survey.calls.size() == kMaxCalls) {
      ++survey.more_calls;
      continue;
    }
    survey.calls.push_back({call->calling_actor, *call->target, call->method,
                            in_seconds(now - call->began), seconds_left(call->deadline, now),
                            call->sent.load()});
  }
  return survey;
}

std::vector<WaitingCall> System::waiting_calls() const { return impl_->survey_itself().calls; }

void System::Impl::forward_survey(const SurveyTarget& target, Nanoseconds within,
                                  const std::shared_ptr<SurveyAnswers>& answers) {
  ProcessSurvey silent;
  silent.process.id = target.process;
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(routes_mutex);
    if (const auto found = links.find(target.process); found != links.end()) link = found->second;
    if (const auto dead = dead_peers.find(target.process); dead != dead_peers.end())
      silent.problem = dead->second.message();
  }
  if (link) {
    silent.process = link->peer();
    silent.pid = link->introduction().pid;
  }
  if (!link || !link->attached()) {
    if (silent.problem.empty())
      silent.problem = fmt::format("is not connected to {}", self.process.name);
    return answers->add({std::move(silent)});
  }
  Call call;
  call.urgent = true;
  call.method = static_cast<std::uint32_t>(SystemMethod::kSurvey);
  call.arguments = encode(SurveyRequest{{target}, (within - kRoundTripReserve).count()});
  const auto address =
      std::make_shared<const ActorAddress>(ActorAddress{silent.process, ActorId(0), "survey"});
  const auto state = this->call(address, kSurveyMethod, std::move(call), within);
  state->when_done([state, silent, answers, within]() mutable {
    if (!state->error()) {
      try {
        return answers->add(decode<std::vector<ProcessSurvey>>(state->reply()));
      } catch (const Error& error) {
        silent.problem = error.message();
        return answers->add({silent});
      }
    }
    const bool late = state->error()->code() == ErrorCode::kDeadlineExceeded;
    silent.problem = late ? fmt::format("does not answer within {:.2f} s{}", in_seconds(within),
                                        state_of_child(silent.pid))
                          : state->error()->message();
    answers->add({silent});
  });
}

void System::Impl::answer_survey(const SurveyRequest& request,
                                 std::function<void(Outcome<std::vector<std::byte>>)> answer) {
  const auto answers = std::make_shared<SurveyAnswers>(std::move(answer));
  const Nanoseconds within(request.within_ns);
  answers->expect();  // keeps the count above 0 until the end of this function
  for (const SurveyTarget& target : request.targets) {
    answers->expect();
    if (target.process != self.process.id) {
      forward_survey(target, within - kRoundTripReserve, answers);
      continue;
    }
    for (const ProcessId next : target.forward_to) {
      answers->expect();
      forward_survey({next}, within - kRoundTripReserve, answers);
    }
    answers->add({survey_itself()});
  }
  answers->add({});
}

std::shared_ptr<CallState> System::ask_survey(const ProcessRef& first, const SurveyRequest& request,
                                              Nanoseconds within) {
  Call call;
  call.urgent = true;
  call.method = static_cast<std::uint32_t>(SystemMethod::kSurvey);
  call.arguments = encode(request);
  return impl_->call(
      std::make_shared<const ActorAddress>(ActorAddress{first, ActorId(0), "survey"}),
      kSurveyMethod, std::move(call), within);
}

}  // namespace weft::actors
