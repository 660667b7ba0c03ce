#include "actors/head/head.h"

#include <fmt/format.h>

#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/platform.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr std::size_t kEventsInStatus = 20;

}  // namespace

Head::Head(Context& context, HeadConfig config, const HeadEvents& events)
    : context_(context),
      config_(std::move(config)),
      started_(clock_.now()),
      store_(config_.state_directory, events.on_warning,
             config_.ephemeral ? StateStore::Durability::kProcessExit
                               : StateStore::Durability::kPowerLoss),
      device_watch_(context, devices_, store_.term()),
      log_(store_,
           [this, on_event = events.on_event](const ClusterEvent& event) {
             on_event(event);
             device_watch_.notify_waiters();
           }),
      runs_(store_),
      hosts_(context.system(), clock_, config_.grace, store_, devices_, log_, *this),
      owners_(context.system(), clock_, config_.grace, hosts_, meshes_, releases_, runs_, store_,
              log_),
      meshes_(clock_, store_, devices_, log_, owners_),
      releases_(context, hosts_, meshes_, devices_, store_, log_,
                [this](const MeshKey& key) {
                  context_.system().ref<Head>(context_.self()).tell<&Head::finish_release>(key);
                }),
      epochs_(context.system(), hosts_, meshes_, releases_, owners_, devices_, store_, log_),
      run_control_(context.system(), clock_, hosts_, owners_, runs_, store_, log_),
      token_(events.rotate_token, log_),
      shutdown_(context, clock_, hosts_, owners_, store_, log_, events.on_stop) {
  set_thread_priority(ThreadPriority::kControl);
  if (config_.ignore_saved_members) store_.erase_member_rows();
  read_rows();
  owners_.close_unreported_runs("had ended when this head began");
  const std::size_t hosts = hosts_.all().size(), owners = owners_.all().size();
  log_.record(fmt::format(
      "head is up: cluster {}, term {}, at {}{}", store_.cluster_id().substr(0, 12), store_.term(),
      to_string(config_.address),
      hosts + owners == 0 ? ""
                          : fmt::format("; restarted: waiting up to {:.0f} s for {} host{} and {} "
                                        "run{} to reconnect",
                                        in_seconds(config_.grace), hosts, hosts == 1 ? "" : "s",
                                        owners, owners == 1 ? "" : "s")));
}

void Head::read_rows() {
  try {
    hosts_.read_rows();
    owners_.read_rows();
    meshes_.read_rows();
  } catch (...) {
    throw_error(
        ErrorCode::kDataLoss,
        "cannot read hosts and runs from the head's state in {}: {}; start a new cluster with "
        "another directory (--state)",
        config_.state_directory.string(), current_error().message());
  }
}

void Head::check_called_locally() const {
  if (caller() != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the head's own process may call this");
}

void Head::host_joined(const HostRegistration& host, const AgentReport& report) {
  const ProcessId agent = hosts_.find(host.name)->agent.id;
  for (const OwnerExit& end : report.owners_ended) owners_.close(end);
  for (const DeathReport& death : report.deaths) meshes_.process_died(death, agent, host.name);
  for (const auto& [key, processes] : meshes_.reconcile(host, report.running))
    releases_.stop_unknown_processes(host.name, key, processes);
  releases_.resume();
}

void Head::host_removed(const HostRegistration& host, const ExitReport& evidence,
                        const std::string& note) {
  runs_.close_runs_of_host(host.name, note);
  meshes_.fail_ranks_on(host, evidence, note);
  meshes_.detach_host(host.name);
}

void Head::process_died(const DeathReport& report) {
  const HostTable::Host* const host = hosts_.of_agent(caller());
  meshes_.process_died(report, caller(), host == nullptr ? "" : host->offer.name);
}

void Head::report_owner_exit(const OwnerExit& end) {
  if (hosts_.of_agent(caller()) != nullptr) owners_.close(end);
}

ClusterStatus Head::status() {
  ClusterStatus status;
  status.cluster = store_.cluster_id();
  status.term = store_.term();
  status.address = to_string(config_.address);
  status.pid = process_id();
  status.up_seconds = in_seconds(clock_.now() - started_);
  status.hosts = hosts_.statuses();
  for (HostStatus& host : status.hosts) meshes_.add_device_users(host);
  status.meshes = meshes_.statuses();
  status.runs = owners_.statuses();
  status.events = store_.last_events(kEventsInStatus);
  return status;
}

TokenRotation Head::rotate_token() {
  std::vector<ProcessId> members;
  for (const auto& [name, host] : hosts_.all()) members.push_back(host.agent.id);
  for (const auto& [id, owner] : owners_.all()) members.push_back(id);
  return token_.rotate(members);
}

task<void> Head::peer_suspected(ProcessId peer, std::int64_t silence_ns) {
  check_called_locally();
  return hosts_.suspected(peer, silence_ns);
}

void Head::peer_timed_out(ProcessId peer, std::int64_t silence_ns) {
  check_called_locally();
  hosts_.timed_out(peer, silence_ns);
}

void Head::peer_disconnected(ProcessId peer, bool cut_off) {
  check_called_locally();
  hosts_.disconnected(peer, cut_off);
  owners_.disconnected(peer, cut_off);
}

void Head::expire_silent_peers() {
  check_called_locally();
  hosts_.expire();
  releases_.resume();
  owners_.expire();
}

task<void> Head::finish_release(MeshKey key) {
  check_called_locally();
  return releases_.finish(std::move(key));
}

void Head::record_refusal(const std::string& text) {
  check_called_locally();
  log_.record_unlogged(text);
}

}  // namespace weft::actors
