#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "core/codec/codec.h"

namespace weft::actors {

// What a process sees of itself: who waits for whom, since and until when. Told by its I/O thread,
// whatever its handlers do. Times are told as "so long ago", as clocks differ between machines.

/// Something that an actor waits for and that is no call: a transfer with other actors.
struct ActivityWait {
  std::string what;                 ///< "'t1 back->front' of microbatch 0"
  std::uint64_t key = 0;            ///< the same for all who take part
  std::vector<std::uint32_t> with;  ///< ActorActivity::number of the others who take part
  static constexpr auto fields =
      weft::fields(&ActivityWait::what, &ActivityWait::key, &ActivityWait::with);
};

/// What an actor says that it is at, while a handler of it runs (Context::on_activity).
struct ActorActivity {
  std::string text;    ///< "in 1F1 (next 1B0)"; empty: nothing
  double seconds = 0;  ///< since when: in what it does, or in its wait
  /// Among those that wait for each other, who all count alike.
  std::optional<std::uint32_t> number = {};
  /// Grows: what others wait for in a later phase, it has not begun.
  std::uint64_t phase = 0;
  std::optional<ActivityWait> wait = {};
  /// Keys of what it has not begun in this phase.
  std::vector<std::uint64_t> ahead = {};
  static constexpr auto fields =
      weft::fields(&ActorActivity::text, &ActorActivity::seconds, &ActorActivity::number,
                   &ActorActivity::phase, &ActorActivity::wait, &ActorActivity::ahead);
};

/// A call that an actor has begun and not ended.
struct RunningHandler {
  std::string method;
  ProcessRef caller;
  double seconds = 0;                       ///< since it began
  std::optional<double> seconds_left = {};  ///< until its caller gives up; negative: it has
  bool computes = false;                    ///< It holds the actor's thread; or else it awaits.
  bool cancelled = false;
  static constexpr auto fields = weft::fields(
      &RunningHandler::method, &RunningHandler::caller, &RunningHandler::seconds,
      &RunningHandler::seconds_left, &RunningHandler::computes, &RunningHandler::cancelled);
};

struct ActorSurvey {
  ActorId actor;
  std::string label;
  std::vector<RunningHandler> running;
  std::uint64_t queued = 0;  ///< calls that wait in its mailbox
  std::optional<ActorActivity> activity = {};
  static constexpr auto fields =
      weft::fields(&ActorSurvey::actor, &ActorSurvey::label, &ActorSurvey::running,
                   &ActorSurvey::queued, &ActorSurvey::activity);
};

/// A call from here that has no reply yet.
struct WaitingCall {
  ActorId caller;  ///< 0: a thread that is no actor's
  ActorAddress target;
  std::string method;
  double seconds = 0;
  std::optional<double> seconds_left = {};
  bool sent = false;  ///< It has left this process; or else the target has no room for it.
  static constexpr auto fields =
      weft::fields(&WaitingCall::caller, &WaitingCall::target, &WaitingCall::method,
                   &WaitingCall::seconds, &WaitingCall::seconds_left, &WaitingCall::sent);
};

/// One process, by itself; or why there is nothing from it, by who asked it.
struct ProcessSurvey {
  ProcessRef process;
  std::int64_t pid = 0;
  std::string problem;  ///< "does not answer: it is stopped (state T)"; empty: this is from itself
  std::string ending = {};  ///< "ends, for 3.1 s so far: its run is done"; empty: it does not
  std::vector<ActorSurvey> actors;
  std::vector<WaitingCall> calls;
  std::uint64_t more_calls = 0;  ///< that are not listed
  static constexpr auto fields = weft::fields(
      &ProcessSurvey::process, &ProcessSurvey::pid, &ProcessSurvey::problem, &ProcessSurvey::ending,
      &ProcessSurvey::actors, &ProcessSurvey::calls, &ProcessSurvey::more_calls);
};

/// A process, and others that it is to ask over the connections that it has.
struct SurveyTarget {
  ProcessId process;
  std::vector<ProcessId> behind = {};
  static constexpr auto fields = weft::fields(&SurveyTarget::process, &SurveyTarget::behind);
};
struct SurveyRequest {
  std::vector<SurveyTarget> targets;
  std::int64_t within_ns = 0;  ///< for all of it
  static constexpr auto fields = weft::fields(&SurveyRequest::targets, &SurveyRequest::within_ns);
};

}  // namespace weft::actors
