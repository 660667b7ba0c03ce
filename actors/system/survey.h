#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "core/codec/codec.h"

namespace weft::actors {

// State of a process as seen by itself: the calls and waits, since and until when. Its I/O thread
// answers, whatever its handlers do. Times are durations, as clocks differ between machines.

/// Wait of an actor for something other than a call: a transfer with other actors.
struct ActivityWait {
  std::string what;       ///< "'t1 back->front' of microbatch 0"
  std::uint64_t key = 0;  ///< equal for all participants
  std::vector<std::uint32_t>
      other_participants;  ///< ActorActivity::number of the other participants
  static constexpr auto fields =
      weft::fields(&ActivityWait::what, &ActivityWait::key, &ActivityWait::other_participants);
};

/// Activity that an actor reports while a handler runs (Context::on_activity).
struct ActorActivity {
  std::string text;    ///< "in 1F1 (next 1B0)"; empty: nothing
  double seconds = 0;  ///< duration of the activity, or of its wait
  /// Number of this actor among the actors that wait for each other; all of them agree on it.
  std::optional<std::uint32_t> number = {};
  /// Phase, which grows. An actor has not begun anything of a later phase.
  std::uint64_t phase = 0;
  std::optional<ActivityWait> wait = {};
  /// Keys of the operations that have not begun in this phase.
  std::vector<std::uint64_t> pending_keys = {};
  static constexpr auto fields =
      weft::fields(&ActorActivity::text, &ActorActivity::seconds, &ActorActivity::number,
                   &ActorActivity::phase, &ActorActivity::wait, &ActorActivity::pending_keys);
};

/// Call that an actor has started and not finished.
struct RunningHandler {
  std::string method;
  ProcessRef caller;
  double seconds = 0;                       ///< since the start
  std::optional<double> seconds_left = {};  ///< until the caller's deadline; negative: passed
  bool has_thread = false;                  ///< true: has the actor's thread; false: suspended
  bool cancelled = false;
  bool waits_for_reader = false;  ///< a generator whose reader has not taken its values
  static constexpr auto fields =
      weft::fields(&RunningHandler::method, &RunningHandler::caller, &RunningHandler::seconds,
                   &RunningHandler::seconds_left, &RunningHandler::has_thread,
                   &RunningHandler::cancelled, &RunningHandler::waits_for_reader);
};

struct ActorSurvey {
  ActorId actor;
  std::string label;
  std::vector<RunningHandler> running;
  std::uint64_t queued = 0;  ///< calls waiting in the mailbox
  std::optional<ActorActivity> activity = {};
  static constexpr auto fields =
      weft::fields(&ActorSurvey::actor, &ActorSurvey::label, &ActorSurvey::running,
                   &ActorSurvey::queued, &ActorSurvey::activity);
};

/// Call of this process that has no reply yet.
struct WaitingCall {
  ActorId caller;  ///< 0: a thread that is no actor's
  ActorAddress target;
  std::string method;
  double seconds = 0;
  std::optional<double> seconds_left = {};
  bool sent = false;  ///< false: held back, as the target's mailbox is full or not connected
  static constexpr auto fields =
      weft::fields(&WaitingCall::caller, &WaitingCall::target, &WaitingCall::method,
                   &WaitingCall::seconds, &WaitingCall::seconds_left, &WaitingCall::sent);
};

/// State of one process by itself, or the reason why it did not answer, by the asking process.
struct ProcessSurvey {
  ProcessRef process;
  std::int64_t pid = 0;
  std::string problem;      ///< "does not answer: it is stopped (state T)"; empty: it answered
  std::string ending = {};  ///< "ends, for 3.1 s so far: its run is done"; empty: it does not end
  std::vector<ActorSurvey> actors;
  std::vector<WaitingCall> calls;
  std::uint64_t more_calls = 0;  ///< calls that are not listed
  static constexpr auto fields = weft::fields(
      &ProcessSurvey::process, &ProcessSurvey::pid, &ProcessSurvey::problem, &ProcessSurvey::ending,
      &ProcessSurvey::actors, &ProcessSurvey::calls, &ProcessSurvey::more_calls);
};

/// Process to survey, and others that it asks over its connections.
struct SurveyTarget {
  ProcessId process;
  std::vector<ProcessId> forward_to = {};
  static constexpr auto fields = weft::fields(&SurveyTarget::process, &SurveyTarget::forward_to);
};
struct SurveyRequest {
  std::vector<SurveyTarget> targets;
  std::int64_t within_ns = 0;  ///< time limit of the whole survey
  static constexpr auto fields = weft::fields(&SurveyRequest::targets, &SurveyRequest::within_ns);
};

}  // namespace weft::actors
