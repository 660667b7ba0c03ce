#include "actors/cluster/keeper.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "actors/net/network.h"

namespace weft::actors {
namespace {

constexpr auto kHeadAnswersWithin = std::chrono::seconds(10);
/// Pause before actors that cannot be spawned yet are tried again. It doubles with each try.
constexpr Nanoseconds kFirstRetryAfter = std::chrono::milliseconds(100);
constexpr Nanoseconds kLastRetryAfter = std::chrono::seconds(10);

ClusterOptions cluster_options() {
  ClusterOptions options;
  options.name = kKeeperName;
  options.is_keeper = true;
  return options;
}

SpawnOptions options_of(const KeptActors& actors) {
  SpawnOptions options;
  options.on_failure = static_cast<OnFailure>(actors.on_failure);
  options.restarts = actors.restarts;
  options.within = Nanoseconds(actors.within_ns);
  options.place.hosts = actors.hosts;
  options.place.environment = actors.environment;
  options.place.executable = {actors.binary, actors.binary_sha256, actors.memory_cap};
  return options;
}

}  // namespace

task<NamedActors> KeeperActor::spawn(KeptActors actors) {
  const auto spawned = std::make_shared<NamedActors>();  // the handler may be cancelled
  auto spawning = work_.run(context_, "keep " + actors.name,
                            [this, actors, spawned] { *spawned = keeper_.spawn(actors); });
  co_await spawning;
  co_return std::move(*spawned);
}

Keeper::Keeper(const Address& head, SystemOptions options) : system_(std::move(options)) {
  system_.listen({local_address_towards(head), 0});
  // Callers find this actor as soon as the head knows this process.
  actor_ = system_.host_with<KeeperActor>(
      "keeper", [this](Context& context) { return std::make_unique<KeeperActor>(context, *this); });
  cluster_.emplace(system_, head, cluster_options());
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

Keeper::~Keeper() {
  stop();
  try {
    actor_.stop().get();
  } catch (const Error&) {
    // The system has stopped it.
  }
}

void Keeper::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Keeper::resume() {
  auto left = cluster_->head().ask<std::vector<KeptActors>>(
      kHeadAnswersWithin, [](const ActorRef<Head>& head, std::uint64_t) {
        return head.call<&Head::kept_actors>().get();
      });
  Nanoseconds pause = kFirstRetryAfter;
  while (!left.empty()) {
    std::erase_if(left, [this](const KeptActors& actors) {
      try {
        start(actors);
        return true;
      } catch (const Error& error) {
        system_.options().log.warning("{} of the cluster cannot be restarted yet: {}", actors.name,
                                      error.describe());
        return error.code() == ErrorCode::kAlreadyExists;
      }
    });
    std::unique_lock lock(mutex_);
    if (left.empty() || changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
    pause = std::min(2 * pause, kLastRetryAfter);
  }
}

NamedActors Keeper::start(const KeptActors& actors) {
  MeshKey ignored;
  const SpawnedActors spawned = cluster_->spawn_actors(
      ignored, {actors.interface, actors.name, actors.shape, actors.arguments}, options_of(actors));
  return named_actors(system_, spawned);
}

NamedActors Keeper::spawn(const KeptActors& actors) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_ || stopping_; });
    if (!ready_) throw_error(ErrorCode::kCancelled, "the head ends");
  }
  NamedActors started = start(actors);
  // The next keeper knows only what is recorded.
  return cluster_->head().ask<NamedActors>(kHeadAnswersWithin,
                                           [&](const ActorRef<Head>& head, std::uint64_t) {
                                             head.call<&Head::keep_actors>(actors).get();
                                             return started;
                                           });
}

}  // namespace weft::actors
