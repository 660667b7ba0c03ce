#include "actors/head/head.h"

#include <algorithm>

#include "actors/head/cluster_status.h"
#include "actors/head/head_start.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

Head::Head(Context& context, HeadConfig config, const HeadEvents& events)
    : context_(context),
      config_(std::move(config)),
      started_(clock_.now()),
      store_(config_.state_directory, events.on_warning,
             config_.ephemeral ? StateStore::Durability::kProcessExit
                               : StateStore::Durability::kPowerLoss),
      device_watch_(context, resources_, store_.term()),
      log_(store_,
           [this, on_event = events.on_event](const ClusterEvent& event) {
             on_event(event);
             device_watch_.notify_waiters();
             reservations_.notify_waiters();
           }),
      runs_(store_),
      reservations_(context, clock_, owners_, resources_, store_, log_),
      host_changes_(hosts_, owners_, meshes_, releases_, reservations_, runs_),
      hosts_(context.system(), clock_, config_.grace, store_, resources_, log_, host_changes_),
      owners_(context.system(), clock_, config_.grace, hosts_, meshes_, releases_, reservations_,
              directory_, runs_, store_, log_),
      directory_(context, owners_, meshes_, runs_, store_),
      meshes_(clock_, store_, resources_, log_, owners_),
      releases_(context, hosts_, meshes_, resources_, store_, log_,
                [this](const MeshKey& key) {
                  context_.system().ref<Head>(context_.self()).tell<&Head::finish_release>(key);
                }),
      epochs_(context, hosts_, meshes_, releases_, reservations_, owners_, resources_, store_, log_,
              [this](const MeshKey& key) {
                context_.system().ref<Head>(context_.self()).tell<&Head::start_shared_process>(key);
              }),
      kept_(context, owners_, store_, events.start_keeper),
      run_control_(context.system(), clock_, hosts_, owners_, runs_, store_, log_),
      token_(events.rotate_token, hosts_, owners_, log_),
      shutdown_(context, clock_, hosts_, owners_, store_, log_, events.on_stop),
      local_calls_(context, hosts_, owners_, releases_, epochs_, reservations_, log_) {
  set_thread_priority(ThreadPriority::kControl);
  if (config_.ignore_saved_members) store_.erase_member_rows();
  read_saved_members(config_, hosts_, owners_, reservations_, meshes_, directory_);
  owners_.close_unreported_runs("had ended when this head began");
  log_.record(start_text(config_, store_, hosts_, owners_));
  kept_.resume();
}

JoinReply Head::register_owner(OwnerRegistration offer) {
  // The keeper's name, by which other runs find its actors.
  if (!offer.is_keeper && offer.name == kKeeperName) offer.name += "#2";
  return owners_.register_owner(context_.caller(), std::move(offer));
}

task<void> Head::stop_actors(std::string name) {
  try {
    auto stopping = directory_.stop(caller(), name);
    co_await stopping;
    co_return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound || !kept_.contains(name)) throw;
  }
  // Actors that cannot be spawned again have no name.
  auto stopping = kept_.stop(name);
  co_await stopping;
}

void Head::publish_actors(PublishActors changes) {
  // The keeper replaces the record of a name that has new actors.
  for (const std::string& name : changes.withdrawn)
    if (std::ranges::find(changes.actors, name, &NamedActors::name) == changes.actors.end())
      kept_.forget(caller(), name);
  directory_.publish(caller(), std::move(changes));
}

ClusterStatus Head::status() {
  ClusterStatus status = cluster_status(config_, store_, hosts_, meshes_, owners_, reservations_);
  status.up_seconds = in_seconds(clock_.now() - started_);
  return status;
}

}  // namespace weft::actors
