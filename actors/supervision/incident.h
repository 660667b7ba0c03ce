#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/exit_report.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Device index of a process without a device.
inline constexpr std::uint32_t kNoDevice = 0xffffffff;

/// Process of a mesh that has ended or counts as dead. A value that is sent in messages.
struct ProcessFailure {
  std::string actor;  ///< "front[data=0,tensor=1]"
  std::string mesh;
  std::uint64_t epoch = 0;  ///< Epoch of the mesh.
  std::uint32_t rank = 0;
  std::string host;          ///< Name of the host. Empty: the whole mesh; see host_failure.
  std::uint32_t device = 0;  ///< Index on its host, or kNoDevice.
  std::int64_t pid = 0;
  ExitReport evidence;
  /// Reason if the whole host is lost: "its agent (pid 7) died: SIGKILL". Else empty.
  std::string host_failure;

  /// Returns "front[data=0,tensor=1] (mesh front, rank 1) on worker0 device 1 (pid 4121, epoch 3)
  /// died: SIGKILL, rss 61.8 MiB; log: ...".
  std::string describe() const;
  /// Returns the same on one line, without the log: "worker0 device 1 (front[data=0,tensor=1], pid
  /// 4121) died: SIGKILL, rss 61.8 MiB".
  std::string summary() const;
  /// Returns "worker0 device 1"; "worker0" if it has no device.
  std::string place() const;
  bool is_whole_mesh() const { return host.empty() && !host_failure.empty(); }
  /// Returns the cause alone: "died: SIGKILL, rss 61.8 MiB", or why its host is lost.
  std::string cause() const { return host_failure.empty() ? evidence.summary() : host_failure; }

  static constexpr auto fields =
      weft::fields(&ProcessFailure::actor, &ProcessFailure::mesh, &ProcessFailure::epoch,
                   &ProcessFailure::rank, &ProcessFailure::host, &ProcessFailure::device,
                   &ProcessFailure::pid, &ProcessFailure::evidence, &ProcessFailure::host_failure);
};

/// Failure of a mesh in one epoch, with all processes that die in it. A value that is sent in
/// messages.
struct Incident {
  std::string mesh;
  std::uint64_t epoch = 0;
  std::vector<ProcessFailure> failures;  ///< Processes in the order of their reports.
  std::uint32_t first_cause = 0;         ///< Index of the first cause in `failures`.

  /// Returns the first cause's description, and the numbers of other processes and of other actors
  /// in its process.
  std::string describe() const;
  /// Returns the first cause alone: "worker1 device 0 died: SIGKILL", or without a device "worker1
  /// (pid 4121) died: SIGKILL". For a lost host: "worker1: its agent (pid 7) died: SIGKILL".
  std::string summary() const;
  /// Returns host and number of the process whose end is the first cause, a device process or an
  /// agent: "worker1 4121".
  std::string process() const;
  /// Returns ExitReport::crash_signature() of the first cause; empty if its host is lost.
  std::string crash_signature() const;
  Error error() const { return Error(ErrorCode::kPeerDied, describe()); }

  static constexpr auto fields =
      weft::fields(&Incident::mesh, &Incident::epoch, &Incident::failures, &Incident::first_cause);
};

/// Log of incidents. Groups deaths by mesh and epoch. Pure except for the clock. One thread at a
/// time.
///
/// Deaths within the quiescence window of the first one compete for being its cause. A signal beats
/// an exit status, which beats a lost connection, as ranks that merely lost a peer tend to exit by
/// themselves. Later deaths are only attached. Keeps the last kKept incidents, as the head runs for
/// months.
class IncidentLog {
 public:
  static constexpr std::size_t kKept = 1'000;
  explicit IncidentLog(const Clock& clock, Nanoseconds window = std::chrono::milliseconds(200))
      : clock_(clock), window_(window) {}

  /// Incident of a failure, valid until the next call, and whether it is new.
  struct Recorded {
    const Incident& incident;
    bool is_new;
  };
  Recorded record(ProcessFailure failure);
  /// Returns the last kKept incidents, oldest first.
  const std::vector<Incident>& incidents() const { return incidents_; }

 private:
  const Clock& clock_;
  const Nanoseconds window_;
  std::vector<Incident> incidents_;
  std::vector<TimePoint> began_;  // Start times, by index of the incident.
};

}  // namespace weft::actors
