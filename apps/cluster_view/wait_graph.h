#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/system/survey.h"

namespace weft::apps {

/// One who waits or is waited for: an actor, or a thread of a process that is no actor's, such as
/// that of a driver.
struct Waiter {
  struct Wait {
    std::size_t on = 0;  ///< index of a waiter
    std::string what;    ///< "'run'", "'t1 back->front' of microbatch 0"
    double seconds = 0;
    std::optional<double> seconds_left = {};  ///< of a call that has a deadline
    bool is_call = true;                      ///< or a transfer
    bool held = false;   ///< a call that has not left: its target has no room for it
    bool begun = false;  ///< a transfer that the other one has begun: its bytes are on their way
    bool in_cycle = false;
  };
  std::string name;         ///< "front[data=0]", "driver of quickstart"
  std::string place;        ///< "a device 0, pid 4130"
  std::string problem;      ///< why its process does not answer; empty: it does
  std::string ending = {};  ///< that its process ends, since when and why; empty: it does not
  std::vector<actors::RunningHandler> running;
  std::optional<actors::ActorActivity> activity = {};
  std::uint64_t queued = 0;
  std::vector<Wait> waits = {};
  bool is_root = false;  ///< where a drawing begins

  /// It waits, works, or does not answer.
  bool is_involved() const {
    return !waits.empty() || !running.empty() || !problem.empty() || !ending.empty() || queued > 0;
  }
};

/// What somebody knows of a process besides what it says itself.
struct NamedProcess {
  actors::ProcessId process;
  std::string name;   ///< of its own threads, or of its only actor: "driver of quickstart"
  std::string place;  ///< "pid 4121 on box"
  bool is_root = false;
  std::uint64_t group = 0;   ///< numbers of activities count in it: a run
  std::string verdict = {};  ///< why it does not answer, if it does not, as far as others know
};

/// Who waits for whom. A value, made from what processes say.
struct WaitGraph {
  std::vector<Waiter> waiters;
  std::vector<std::vector<std::size_t>> cycles;  ///< each once: the last waits for the first

  static WaitGraph of(const std::vector<actors::ProcessSurvey>& surveys,
                      const std::vector<NamedProcess>& names);
};

/// A tree from its roots on, or, with `about`, from that one on, and who waits for it. Cycles come
/// last, or who all wait for in the end. Those that do the same are one line.
std::string to_text(const WaitGraph& graph, std::optional<std::size_t> about);
/// {"waiters": [...], "cycles": [["a", "b"]]}
nlohmann::ordered_json to_json(const WaitGraph& graph, std::optional<std::size_t> about);

}  // namespace weft::apps
