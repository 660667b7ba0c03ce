#pragma once

#include <string>

#include "actors/head/host_table.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/reservations.h"
#include "actors/head/run_history.h"

namespace weft::actors {

/// Effects of changes of hosts on meshes, reservations, owners and runs. Owned by the head; its
/// thread only.
class HostChanges final : public HostObserver {
 public:
  HostChanges(const HostTable& hosts, OwnerTable& owners, MeshTable& meshes, MeshReleases& releases,
              Reservations& reservations, RunHistory& runs)
      : hosts_(hosts),
        owners_(owners),
        meshes_(meshes),
        releases_(releases),
        reservations_(reservations),
        runs_(runs) {}

  void host_added(const std::string& host) override { meshes_.assign_resources_of(host); }
  /// Applies the ends of processes that the agent has not reported yet. Compares the meshes with
  /// the processes that run on the host.
  void host_joined(const HostRegistration& host, const AgentReport& report) override;
  void host_leaving(const std::string& host, const std::string& why) override {
    owners_.notify_host_leaving(host, why);
  }
  void host_failed(const HostRegistration& host, const ExitReport& evidence,
                   const std::string& note) override {
    meshes_.fail_ranks_on(host, evidence, note);
  }
  void host_removed(const HostRegistration& host, const ExitReport& evidence,
                    const std::string& note) override;

 private:
  const HostTable& hosts_;
  OwnerTable& owners_;
  MeshTable& meshes_;
  MeshReleases& releases_;
  Reservations& reservations_;
  RunHistory& runs_;
};

}  // namespace weft::actors
