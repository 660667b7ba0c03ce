#include "actors/head/host_changes.h"

namespace weft::actors {

void HostChanges::host_joined(const HostRegistration& host, const AgentReport& report) {
  const ProcessId agent = hosts_.find(host.name)->agent.id;
  for (const OwnerExit& end : report.owners_ended) owners_.close(end);
  for (const DeathReport& death : report.deaths) meshes_.process_died(death, agent, host.name);
  for (const auto& [key, processes] : meshes_.reconcile(host, report.running))
    releases_.stop_unknown_processes(host.name, key, processes);
  releases_.resume();
  // Before reservations that wait, and meshes, take the room.
  reservations_.replace_lost();
}

void HostChanges::host_removed(const HostRegistration& host, const ExitReport& evidence,
                               const std::string& note) {
  runs_.close_runs_of_host(host.name, note);
  meshes_.fail_ranks_on(host, evidence, note);
  meshes_.detach_host(host.name);
  reservations_.replace_lost();
}

}  // namespace weft::actors
