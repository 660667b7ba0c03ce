#pragma once

#include <cstdint>
#include <string>

#include "actors/call/task.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_epochs.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/owner_table.h"
#include "actors/head/reservations.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Calls that the head's own process makes: about its connections, its timer, the completion of
/// releases, and the start of shared processes. Each throws kInvalidArgument if another process
/// calls. Owned by the head; its thread only.
class LocalCalls final {
 public:
  LocalCalls(const Context& context, HostTable& hosts, OwnerTable& owners, MeshReleases& releases,
             MeshEpochs& epochs, Reservations& reservations, EventLog& log)
      : context_(context),
        hosts_(hosts),
        owners_(owners),
        releases_(releases),
        epochs_(epochs),
        reservations_(reservations),
        log_(log) {}

  /// `silence_ns`: time without an answer; negative: the peer answers again.
  task<void> peer_suspected(ProcessId peer, std::int64_t silence_ns);
  void peer_timed_out(ProcessId peer, std::int64_t silence_ns);
  void peer_disconnected(ProcessId peer, bool cut_off);
  /// Called periodically.
  void expire_silent_peers();
  task<void> finish_release(MeshKey key);
  task<void> start_shared_process(MeshKey key);
  /// Records that the process refused a connection.
  void record_refusal(const std::string& text);

 private:
  void check_caller() const;

  const Context& context_;
  HostTable& hosts_;
  OwnerTable& owners_;
  MeshReleases& releases_;
  MeshEpochs& epochs_;
  Reservations& reservations_;
  EventLog& log_;
};

}  // namespace weft::actors
