#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/schedule/vocabulary.h"
#include "transfer/reshard/reshard_algorithm.h"

namespace weft::apps {

/// Time of the gradient sums among replicas: during the last backward, or at the end of the step.
enum class Reductions : std::uint8_t { kEarly, kAtTheEnd };

/// Configuration of a workload's transfers and schedule, compared with others in the benchmark.
struct Arm {
  std::string schedule = "1f1b";  ///< Name of a schedule, or "auto".
  transfer::ReshardAlgorithm strategy = transfer::ReshardAlgorithm::kWeft;
  mesh::Lowering lowering = mesh::Lowering::kLanes;
  mesh::Payload payload = mesh::Payload::kTensors;
  Reductions reductions = Reductions::kEarly;
  /// Schedule whose memory "auto" may use; empty: as much as the largest of the compared schedules.
  std::string memory_limit_of = {};
  /// Placement of the vocabulary, for models that can share it.
  mesh::VocabularyMode vocabulary = mesh::VocabularyMode::kLast;
  /// True if the last stage, which has the output layer, has fewer layers.
  bool redistributed = false;

  bool is_signal() const { return payload == mesh::Payload::kSignals; }
  friend bool operator==(const Arm&, const Arm&) = default;
};

/// Returns "blocking" (safe mode), "overlapped", or "signals only".
std::string transfers_of(const Arm& arm);
/// Returns text such as "zb-h1", "auto in eager-1f1b's memory", "1f1b, vocab-2".
std::string schedule_of(const Arm& arm);
/// Returns text such as "send_recv, blocking, 1f1b".
std::string to_string(const Arm& arm);
/// Returns the name of this combination in the resharding paper (arXiv 2211.05322, section 5):
/// "Send/Recv", "Alpa", "Broadcast", "Overlap", "AlpaComm", "Signal"; or "".
std::string paper_name(const Arm& arm);

/// Returns the arm that speed-ups refer to: send_recv, blocking, 1f1b.
Arm baseline_arm();
/// Returns the paper's combinations, then Weft's resharding, overlapped, under each schedule, then
/// the schedules with signals only.
std::vector<Arm> paper_arms(const std::vector<std::string>& schedules);
/// Returns {send_recv, local_allgather, broadcast, weft} x {blocking, overlapped} x schedules, then
/// the schedules with signals only.
std::vector<Arm> all_arms(const std::vector<std::string>& schedules);
/// Returns the baseline, then Weft's resharding, overlapped, under each schedule, then the
/// schedules with signals only.
std::vector<Arm> schedule_arms(const std::vector<std::string>& schedules);

/// Returns arms with the vocabulary's layers on the first and the last stage, with redistributed
/// layers, and with each way of sharing the vocabulary.
std::vector<Arm> vocabulary_arms(mesh::Payload payload);

}  // namespace weft::apps
