#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/head/actor_directory.h"
#include "actors/head/actor_messages.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/device_watch.h"
#include "actors/head/event_log.h"
#include "actors/head/head_config.h"
#include "actors/head/head_token.h"
#include "actors/head/host_changes.h"
#include "actors/head/host_logs.h"
#include "actors/head/host_table.h"
#include "actors/head/kept_actors.h"
#include "actors/head/local_calls.h"
#include "actors/head/mesh_epochs.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/reservations.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/run_control.h"
#include "actors/head/run_history.h"
#include "actors/head/run_messages.h"
#include "actors/head/shutdown.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Head of a cluster. Records which hosts have joined, where each mesh is, who owns it, and what
/// has happened to it.
///
/// One per cluster, hosted by the head's main under the name "head". Takes no part in data
/// transfers and calls between actors. Called by agents (join, process_died), owners
/// (register_owner, spawn, release), parents of agents (host_died) and observers.
///
/// The state is on disk: after the head's death, a head of the next term continues with it. Hosts
/// and owners are away until they reconnect, and are removed after HeadConfig::grace. The same
/// holds after a lost connection, unless they are known to have ended.
///
/// Each method passes its call, with the caller's identity, to the member that describes it.
class Head final {
 public:
  static constexpr Nanoseconds kRunsEndWithin = Shutdown::kRunsEndWithin;

  /// Reads the saved state. Throws kDataLoss if it is damaged.
  Head(Context& context, HeadConfig config, const HeadEvents& events);

  // Agents, and the parents of agents: HostTable, MeshTable, OwnerTable, RunControl.
  task<JoinReply> join(HostRegistration offer, AgentReport devices) {
    return hosts_.join(context_.caller(), std::move(offer), std::move(devices));
  }
  void drain_host(const std::string& why) { hosts_.drain(caller(), why); }
  void leave(const std::string& why) { hosts_.leave(caller(), why); }
  void host_died(const HostDeath& death) { hosts_.agent_died(death); }
  void process_died(const DeathReport& report) {
    meshes_.process_died(report, caller(), hosts_.name_of_host(caller()));
  }
  void report_owner_exit(const OwnerExit& end) {
    owners_.close_if_reported_by_agent(caller(), end);
  }
  void detached_ended(const DetachedRunExit& end) { run_control_.detached_ended(caller(), end); }

  // Owners: OwnerTable, RunHistory, MeshTable, MeshEpochs, MeshReleases, Reservations, DeviceWatch.
  JoinReply register_owner(OwnerRegistration offer);
  void describe_run(RunDescription description) {
    runs_.describe(caller(), std::move(description));
  }
  void report_progress(RunProgress progress) {
    owners_.report_progress(caller(), std::move(progress));
  }
  void run_ended(const RunResult& end) { owners_.run_ended(caller(), end); }
  task<MeshProcesses> spawn(MeshRequest request) {
    return epochs_.spawn(caller(), std::move(request));
  }
  task<RenewedMesh> renew(MeshRenewal renewal) {
    return epochs_.renew(context_.caller(), std::move(renewal));
  }
  task<void> release(MeshKey key) { return releases_.release(std::move(key), context_.caller()); }
  task<ReservedBundles> reserve(ReservationRequest request) {
    return reservations_.reserve(caller(), std::move(request));
  }
  void release_reservation(const MeshKey& key) { reservations_.release(key, caller()); }
  void release_leaving_host(const std::string& host) {
    releases_.release_leaving_host(host, caller());
  }
  void set_device_descriptions(MeshDevices devices) {
    meshes_.set_device_descriptions(std::move(devices), caller());
  }
  task<bool> has_dead_process(std::vector<MeshKey> keys) {
    return epochs_.has_dead_process(std::move(keys));
  }
  DeviceSnapshot device_snapshot() const { return device_watch_.snapshot(); }
  task<std::uint64_t> wait_for_change(std::uint64_t seen, std::int64_t within_ns) {
    return device_watch_.wait_for_change(seen, within_ns);
  }

  // Names of actors: ActorDirectory.
  void publish_actors(PublishActors changes);
  task<NamedActors> find_actors(FindActors request) {
    return directory_.find(caller(), std::move(request));
  }
  task<ActorAddress> locate_actor(LocateActor request) {
    return directory_.locate(std::move(request));
  }
  std::vector<ActorStatus> actors() const { return directory_.statuses(); }
  task<void> stop_actors(std::string name);

  // Actors that outlive runs: KeptActorsTable.
  task<ProcessRef> keeper() { return kept_.keeper(); }
  void keep_actors(const SpawnDescription& actors) { kept_.keep(caller(), actors); }
  std::vector<SpawnDescription> kept_actors() const { return kept_.all(caller()); }

  // Observers and operators: HostTable, EventLog, RunControl, OwnerTable, HeadToken, Shutdown.
  /// Returns hosts, meshes, owners and runs as they are now.
  ClusterStatus status();
  std::vector<Member> members() { return hosts_.members(); }
  /// Returns the texts of incidents since the head started, oldest first.
  std::vector<std::string> incidents() { return store_.incidents(); }
  ClusterEvents events(const EventsRequest& request) { return log_.read(request); }
  task<std::vector<LogPiece>> read_logs(std::vector<LogRequest> requests, std::uint32_t max_bytes) {
    return read_host_logs(context_.system(), hosts_, std::move(requests), max_bytes);
  }
  RunRecord run(std::uint64_t number) { return run_control_.run(number); }
  std::vector<RunRecord> runs() { return run_control_.runs(); }
  task<std::uint64_t> submit(RunSubmission submission) {
    return run_control_.submit(std::move(submission));
  }
  task<std::string> cancel_run(std::uint64_t number, bool now) {
    return run_control_.cancel(number, now);
  }
  void driver_given_up(const std::string& run) { owners_.driver_given_up(run); }
  TokenRotation rotate_token() { return token_.rotate(); }
  task<void> stop(std::string reason, bool now) { return shutdown_.stop(std::move(reason), now); }

  // The head's own process: LocalCalls.
  task<void> peer_suspected(ProcessId peer, std::int64_t silence_ns) {
    return local_calls_.peer_suspected(peer, silence_ns);
  }
  void peer_timed_out(ProcessId peer, std::int64_t silence_ns) {
    local_calls_.peer_timed_out(peer, silence_ns);
  }
  void peer_disconnected(ProcessId peer, bool cut_off) {
    local_calls_.peer_disconnected(peer, cut_off);
  }
  void expire_silent_peers() { local_calls_.expire_silent_peers(); }
  task<void> finish_release(MeshKey key) { return local_calls_.finish_release(std::move(key)); }
  task<void> start_shared_process(MeshKey key) {
    return local_calls_.start_shared_process(std::move(key));
  }
  void record_refusal(const std::string& text) { local_calls_.record_refusal(text); }

  static constexpr auto endpoints = interface<"weft.head", 3>(
      on<&Head::join>("join", urgent), on<&Head::leave>("leave", urgent),
      on<&Head::drain_host>("drain_host", urgent),
      on<&Head::release_leaving_host>("release_leaving_host", urgent),
      on<&Head::register_owner>("register_owner", urgent), on<&Head::spawn>("spawn"),
      on<&Head::renew>("renew"), on<&Head::release>("release", urgent),
      on<&Head::set_device_descriptions>("set_device_descriptions", urgent),
      on<&Head::report_progress>("report_progress", urgent),
      on<&Head::process_died>("process_died", urgent), on<&Head::host_died>("host_died", urgent),
      on<&Head::status>("status", urgent), on<&Head::incidents>("incidents", urgent),
      on<&Head::peer_suspected>("peer_suspected", urgent),
      on<&Head::peer_timed_out>("peer_timed_out", urgent),
      on<&Head::peer_disconnected>("peer_disconnected", urgent),
      on<&Head::expire_silent_peers>("expire_silent_peers", urgent),
      on<&Head::finish_release>("finish_release", urgent),
      on<&Head::start_shared_process>("start_shared_process", urgent),
      on<&Head::record_refusal>("record_refusal", urgent),
      on<&Head::rotate_token>("rotate_token", urgent), on<&Head::stop>("stop", urgent),
      on<&Head::describe_run>("describe_run", urgent),
      on<&Head::driver_given_up>("driver_given_up", urgent),
      on<&Head::run_ended>("run_ended", urgent), on<&Head::runs>("runs", urgent),
      on<&Head::run>("run", urgent), on<&Head::members>("members", urgent),
      on<&Head::submit>("submit", urgent), on<&Head::detached_ended>("detached_ended", urgent),
      on<&Head::read_logs>("read_logs", urgent), on<&Head::events>("events", urgent),
      on<&Head::cancel_run>("cancel_run", urgent),
      on<&Head::device_snapshot>("device_snapshot", urgent),
      on<&Head::wait_for_change>("wait_for_change", urgent),
      on<&Head::has_dead_process>("has_dead_process", urgent),
      on<&Head::report_owner_exit>("report_owner_exit", urgent),
      on<&Head::publish_actors>("publish_actors", urgent),
      on<&Head::find_actors>("find_actors", urgent),
      on<&Head::locate_actor>("locate_actor", urgent), on<&Head::actors>("actors", urgent),
      on<&Head::stop_actors>("stop_actors", urgent), on<&Head::keeper>("keeper", urgent),
      on<&Head::keep_actors>("keep_actors", urgent), on<&Head::kept_actors>("kept_actors", urgent),
      on<&Head::reserve>("reserve", urgent),
      on<&Head::release_reservation>("release_reservation", urgent));

 private:
  ProcessId caller() const { return context_.caller().id; }

  Context& context_;
  const HeadConfig config_;
  const SteadyClock clock_;
  const TimePoint started_;
  StateStore store_;
  ResourceAllocator resources_;
  DeviceWatch device_watch_;
  EventLog log_;
  RunHistory runs_;
  Reservations reservations_;
  HostChanges host_changes_;
  HostTable hosts_;
  OwnerTable owners_;
  ActorDirectory directory_;
  MeshTable meshes_;
  MeshReleases releases_;
  MeshEpochs epochs_;
  KeptActorsTable kept_;
  RunControl run_control_;
  HeadToken token_;
  Shutdown shutdown_;
  LocalCalls local_calls_;
};

}  // namespace weft::actors
