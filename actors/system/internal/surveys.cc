#include "actors/system/internal/surveys.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "actors/supervision/proc_stat.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/internal/system_methods.h"
#include "core/base/platform.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

/// Limit of the calls in one answer: a driver may call a thousand devices.
constexpr std::size_t kMaxCalls = 8192;
/// Part of a survey's time limit for the way to a process and back.
constexpr Nanoseconds kRoundTripReserve = std::chrono::milliseconds(50);

constexpr const char* kOtherBuild =
    "runs another build of Weft, whose state this one cannot read: use the weft of that build";

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

Error other_build(const std::string& process) {
  return Error(ErrorCode::kIncompatible, fmt::format("{} {}", process, kOtherBuild));
}

std::vector<ProcessSurvey> surveys_of(const CallState& call) {
  if (call.error()) throw *call.error();
  try {
    return decode<std::vector<ProcessSurvey>>(call.reply());
  } catch (const Error&) {
    // A build that does not compare fingerprints.
    throw other_build(call.target->process.name);
  }
}

/// Collector of the answers of all asked processes; replies after the last. Any thread.
class Surveys::Answers final {
 public:
  explicit Answers(Answer done) : done_(std::move(done)) {}

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
  const Answer done_;
  Mutex mutex_;  // guards the members below
  std::size_t left_ = 0;
  std::vector<ProcessSurvey> found_;
};

void Surveys::set_exit_reason(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!ending_) ending_.emplace(why, SteadyClock().now());
}

ProcessSurvey Surveys::survey_itself() const {
  const TimePoint now = SteadyClock().now();
  const PeerDescription me = identity_.introduction();
  ProcessSurvey survey;
  survey.process = me.process;
  survey.pid = me.pid;
  {
    const std::lock_guard lock(mutex_);
    if (ending_)
      survey.ending =
          fmt::format("ends, for {} so far: {}", format_seconds(in_seconds(now - ending_->second)),
                      ending_->first);
  }
  for (const auto& host : actors_.all()) survey.actors.push_back(host->survey(now));
  for (const auto& call : calls_.waiting()) {
    if (call->method == kSurveyMethod || call->method == kRelayMethod) continue;
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

void Surveys::forward(const SurveyTarget& target, Nanoseconds within,
                      const std::shared_ptr<Answers>& answers) {
  ProcessSurvey silent;
  silent.process.id = target.process;
  const std::shared_ptr<Link> link = links_.find(target.process);
  if (const auto death = links_.death_of(target.process)) silent.problem = death->message();
  if (link) {
    silent.process = link->peer();
    silent.pid = link->introduction().pid;
  }
  if (!link || !link->attached()) {
    if (silent.problem.empty())
      silent.problem = fmt::format("is not connected to {}", identity_.name());
    return answers->add({std::move(silent)});
  }
  const auto state =
      calls_.call(system_actor_of(silent.process, "survey"), kSurveyMethod,
                  survey_call({{target}, (within - kRoundTripReserve).count()}), within);
  state->when_done([state, silent, answers, within]() mutable {
    try {
      return answers->add(surveys_of(*state));
    } catch (const Error& error) {
      switch (error.code()) {
        case ErrorCode::kDeadlineExceeded:
          silent.problem = fmt::format("does not answer within {:.2f} s{}", in_seconds(within),
                                       state_of_child(silent.pid));
          break;
        case ErrorCode::kIncompatible: silent.problem = kOtherBuild; break;
        default: silent.problem = error.message();
      }
    }
    answers->add({silent});
  });
}

void Surveys::answer(const SurveyRequest& request, Answer answer) {
  const auto answers = std::make_shared<Answers>(std::move(answer));
  const Nanoseconds within(request.within_ns);
  answers->expect();  // keeps the count above 0 until the end of this function
  for (const SurveyTarget& target : request.targets) {
    answers->expect();
    if (target.process != identity_.id()) {
      forward(target, within - kRoundTripReserve, answers);
      continue;
    }
    for (const ProcessId next : target.forward_to) {
      answers->expect();
      forward({next}, within - kRoundTripReserve, answers);
    }
    answers->add({survey_itself()});
  }
  answers->add({});
}

}  // namespace weft::actors
