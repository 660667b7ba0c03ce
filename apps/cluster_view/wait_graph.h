#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/system/survey.h"

namespace weft::apps {

/// Node of a wait graph: an actor, or a thread of a process outside any actor, such as a driver's.
struct WaitNode {
  struct WaitEdge {
    std::size_t on = 0;  ///< index of the awaited waiter
    std::string what;    ///< "'run'", "'t1 back->front' of microbatch 0"
    double seconds = 0;
    std::optional<double> seconds_left = {};  ///< null: no deadline
    bool is_call = true;                      ///< false: a transfer
    bool blocked_by_mailbox = false;          ///< call not sent yet: the target's mailbox is full
    bool peer_started = false;  ///< transfer that the peer has started: bytes are in flight
    bool in_cycle = false;
  };
  std::string name;         ///< "front[data=0]", "driver of quickstart"
  std::string place;        ///< "a device 0, pid 4130"
  std::string problem;      ///< reason why the process does not respond; empty if it does
  std::string ending = {};  ///< since when and why the process is ending; empty if it is not
  std::vector<actors::RunningHandler> running;
  std::optional<actors::ActorActivity> activity = {};
  std::uint64_t queued = 0;
  std::vector<WaitEdge> waits = {};
  bool is_root = false;     ///< start of a drawing
  std::uint64_t group = 0;  ///< ProcessLabel::group of its process

  /// Returns true if the waiter waits, works, is ending, or does not respond.
  bool is_involved() const {
    return !waits.empty() || !running.empty() || !problem.empty() || !ending.empty() || queued > 0;
  }
};

/// Information about a process from other sources than its own survey.
struct ProcessLabel {
  actors::ProcessId process;
  std::string name;   ///< name of the process's threads outside actors, or of its only actor:
                      ///< "driver of quickstart"
  std::string place;  ///< "pid 4121 on box"
  bool is_root = false;
  std::uint64_t group = 0;  ///< run number, within which activity numbers are unique
  /// reason why the process does not respond, as far as others can tell
  std::string diagnosis = {};
};

/// Returns the reason why a process has not answered, with the diagnosis of others unless it has
/// one: "does not answer within 2.00 s: it is stopped (state T)".
std::string with_diagnosis(const std::string& problem, const std::string& diagnosis);

/// Graph of actors that wait for each other, made from surveys of processes.
struct WaitGraph {
  std::vector<WaitNode> waiters;
  std::vector<std::vector<std::size_t>> cycles;  ///< each cycle once; its last waiter waits for its
                                                 ///< first

  static WaitGraph of(const std::vector<actors::ProcessSurvey>& surveys,
                      const std::vector<ProcessLabel>& names);
};

/// Draws a tree from the graph's roots, or from `about` with the waiters that wait for it. Appends
/// the cycles or, if there are none, the waiters that all others wait for. Merges waiters with the
/// same activity into a line.
std::string to_text(const WaitGraph& graph, std::optional<std::size_t> about);
/// Returns {"waiters": [...], "cycles": [["a", "b"]]}.
nlohmann::ordered_json to_json(const WaitGraph& graph, std::optional<std::size_t> about);

}  // namespace weft::apps
