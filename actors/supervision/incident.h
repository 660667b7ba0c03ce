#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/exit_evidence.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// One process of a mesh that is gone, or counts as gone. A value; travels.
struct Casualty {
  std::string actor;  ///< "front[data=0,tensor=1]"
  std::string mesh;
  std::uint64_t epoch = 0;  ///< of the mesh
  std::uint32_t rank = 0;
  std::string host;  ///< name of the agent; empty: it is the whole mesh, see host_note
  std::uint32_t device = 0;
  std::int64_t pid = 0;
  ExitEvidence evidence;
  /// why the whole host is gone, when that is the cause: "its agent (pid 7) died: SIGKILL"
  std::string host_note;

  /// "front[data=0,tensor=1] (mesh front, rank 1) on worker0 device 1 (pid 4121, epoch 3) died:
  /// SIGKILL, rss 61.8 MiB; log: ..."
  std::string describe() const;
  /// The same on one line, without the log: "worker0 device 1 (front[data=0,tensor=1], pid 4121)
  /// died: SIGKILL, rss 61.8 MiB".
  std::string in_short() const;
  bool is_whole_mesh() const { return host.empty() && !host_note.empty(); }
  /// The end of that alone: "died: SIGKILL, rss 61.8 MiB", or why its host is gone.
  std::string cause() const { return host_note.empty() ? evidence.verdict() : host_note; }

  static constexpr auto fields = weft::fields(
      &Casualty::actor, &Casualty::mesh, &Casualty::epoch, &Casualty::rank, &Casualty::host,
      &Casualty::device, &Casualty::pid, &Casualty::evidence, &Casualty::host_note);
};

/// What happened to a mesh in one epoch: exactly one incident, however many of its processes fall.
/// A value; travels.
struct Incident {
  std::string mesh;
  std::uint64_t epoch = 0;
  std::vector<Casualty> casualties;  ///< in the order they were learned
  std::uint32_t first_cause = 0;     ///< index into casualties

  /// The first cause's description, and how many others fell with it.
  std::string describe() const;
  /// The first cause alone: "worker1 device 0 died: SIGKILL", or of a whole host "worker1 died:
  /// SIGKILL".
  std::string in_short() const;
  /// "worker1 4121": the process that the first cause is the end of, a device or an agent, and its
  /// host.
  std::string process() const;
  /// What that process has failed of by itself; see ExitEvidence::fault(). Empty for others, and
  /// where its host is lost.
  std::string fault() const;
  Error error() const { return Error(ErrorCode::kPeerDied, describe()); }

  static constexpr auto fields = weft::fields(&Incident::mesh, &Incident::epoch,
                                              &Incident::casualties, &Incident::first_cause);
};

/// Turns deaths into incidents: one per (mesh, epoch). Pure but for the clock that is passed in.
/// One thread at a time.
///
/// Deaths within the quiescence window of the first one compete for being its cause: being killed
/// by a signal beats an exit status, which beats a lost connection, as ranks that merely lost a
/// peer tend to exit by themselves. Later ones are only attached. The last kKept incidents are
/// kept: the head lives for months.
class IncidentBook {
 public:
  static constexpr std::size_t kKept = 1'000;
  explicit IncidentBook(const Clock& clock, Nanoseconds window = std::chrono::milliseconds(200))
      : clock_(clock), window_(window) {}

  /// The incident that the casualty belongs to, valid until the next call, and whether it is new.
  struct Recorded {
    const Incident& incident;
    bool is_new;
  };
  Recorded record(Casualty casualty);
  /// The last ones, in the order they began.
  const std::vector<Incident>& incidents() const { return incidents_; }

 private:
  const Clock& clock_;
  const Nanoseconds window_;
  std::vector<Incident> incidents_;
  std::vector<TimePoint> began_;  // of the incident at the same index
};

}  // namespace weft::actors
