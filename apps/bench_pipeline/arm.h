#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/schedule/vocabulary.h"
#include "transfer/reshard/strategy.h"

namespace weft::apps {

/// When replicas sum their gradients: all at the end of the step, or those of a stage when its last
/// one is there.
enum class Reductions : std::uint8_t { kAtTheEnd, kEarly };

/// One way to run a workload: how transfers go, when they go, and in which order the work is done.
/// A value.
struct Arm {
  std::string schedule = "1f1b";  ///< A named one, or "auto".
  transfer::Strategy strategy = transfer::Strategy::kWeft;
  mesh::Lowering lowering = mesh::Lowering::kLanes;
  mesh::Payload payload = mesh::Payload::kTensors;
  Reductions reductions = Reductions::kAtTheEnd;
  /// Of "auto": the named schedule whose memory it may hold; empty: what the most demanding of
  /// those beside it needs.
  std::string memory_of = {};
  /// Of models whose vocabulary can be shared.
  mesh::VocabularyMode vocabulary = mesh::VocabularyMode::kLast;
  /// The last stage, which has the output layer, has fewer layers.
  bool redistributed = false;

  bool is_signal() const { return payload == mesh::Payload::kSignals; }
  friend bool operator==(const Arm&, const Arm&) = default;
};

/// "blocking" (safe mode), "overlapped", or "signals only".
std::string transfers_of(const Arm& arm);
/// "zb-h1", "auto in eager-1f1b's memory", "1f1b, vocab-2".
std::string schedule_of(const Arm& arm);
/// "send_recv, blocking, 1f1b"
std::string to_string(const Arm& arm);
/// What the resharding paper (arXiv 2211.05322, section 5) calls this bundle: "Send/Recv", "Alpa",
/// "Broadcast", "Overlap", "AlpaComm", "Signal"; or "".
std::string paper_name(const Arm& arm);

/// What every speed-up refers to: send_recv, blocking, 1f1b.
Arm baseline_arm();
/// The paper's bundles, then Weft's: its resharding overlapped under each of the schedules, then
/// these with signals only.
std::vector<Arm> bundled_arms(const std::vector<std::string>& schedules);
/// {send_recv, local_allgather, broadcast, weft} x {blocking, overlapped} x schedules, then the
/// schedules with signals only.
std::vector<Arm> all_arms(const std::vector<std::string>& schedules);
/// Weft's resharding, overlapped, under each of the schedules; first the baseline, last these with
/// signals only.
std::vector<Arm> schedule_arms(const std::vector<std::string>& schedules);

/// The vocabulary's layers on the first and the last stage, the others redistributed, and shared in
/// all ways.
std::vector<Arm> vocabulary_arms(mesh::Payload payload);

}  // namespace weft::apps
