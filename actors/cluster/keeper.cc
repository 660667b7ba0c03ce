#include "actors/cluster/keeper.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "actors/cluster/described_spawn.h"
#include "actors/head/actor_messages.h"
#include "actors/net/network.h"

namespace weft::actors {
namespace {

constexpr auto kHeadAnswersWithin = std::chrono::seconds(10);
/// Time for which a stop waits for an attempt to spawn the actors, which ends itself. Until then
/// the name is taken.
constexpr auto kAttemptEndsWithin = std::chrono::seconds(10);
/// Pause before actors that cannot be spawned yet are tried again. It doubles with each try.
constexpr Nanoseconds kFirstRetryAfter = std::chrono::milliseconds(100);
constexpr Nanoseconds kLastRetryAfter = std::chrono::seconds(10);
/// Number of actors that resume() tries to spawn at a time.
constexpr std::size_t kMaxStarts = 64;

ClusterOptions cluster_options() {
  ClusterOptions options;
  options.name = kKeeperName;
  options.is_keeper = true;
  // Actors of one name do not depend on those of another.
  options.failure_scope = FailureScope::kOneMesh;
  return options;
}

}  // namespace

task<NamedActors> KeeperActor::spawn(SpawnDescription actors) {
  const auto spawned = std::make_shared<NamedActors>();  // the handler may be cancelled
  auto spawning =
      work_.run(context_, "keep " + actors.name(),
                [&keeper = keeper_, actors, spawned] { *spawned = keeper.spawn(actors); });
  co_await spawning;
  co_return std::move(*spawned);
}

Keeper::Keeper(const Address& head, SystemOptions options) : system_(std::move(options)) {
  const bool everywhere = !system_.options().advertise_host.empty();
  system_.listen({everywhere ? head.host : local_address_towards(head), 0});
  // Callers find this actor as soon as the head knows this process.
  actor_ = system_.host_with<KeeperActor>("keeper", [this](Context& context) {
    return std::make_unique<KeeperActor>(context, *this, work_);
  });
  ClusterOptions cluster = cluster_options();
  cluster.on_stop_unpublished = [this](const std::string& name) { forget(name); };
  try {
    cluster_.emplace(system_, head, std::move(cluster));
  } catch (...) {
    stop();
    end_actor();
    throw;
  }
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

Keeper::~Keeper() {
  stop();
  end_actor();
}

void Keeper::end_actor() {
  try {
    actor_.stop().get();
  } catch (const Error&) {
    // The system has stopped it.
  }
}

void Keeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (!ready_) return;
  }
  cluster_->head().give_up(Error(ErrorCode::kCancelled, "the head ends"));
}

bool Keeper::pause(Nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

void Keeper::resume() {
  Nanoseconds wait = kFirstRetryAfter;
  const auto wait_longer = [&] {
    return pause(std::exchange(wait, std::min(2 * wait, kLastRetryAfter)));
  };
  while (!load())
    if (!wait_longer()) return;
  wait = kFirstRetryAfter;
  while (true) {
    start_left();
    const bool discarded = discard_unrecorded();
    {
      const std::lock_guard lock(mutex_);
      if (left_.empty() && discarded) break;
    }
    if (!wait_longer()) return;
  }
}

bool Keeper::discard_unrecorded() {
  bool all = true;
  // All that is recorded, and its children, has been adopted.
  for (const std::string& name : cluster_->meshes().inherited_names()) {
    try {
      {
        const std::lock_guard lock(mutex_);
        if (left_.contains(name)) continue;
      }
      discard(name);
    } catch (...) {
      all = false;
      system_.options().log.warning("{} cannot be ended yet: {}", name, current_error().describe());
    }
  }
  return all;
}

bool Keeper::load() {
  try {
    const auto kept = cluster_->head().ask<std::vector<SpawnDescription>>(
        kHeadAnswersWithin, [](const ActorRef<Head>& head, std::uint64_t) {
          return head.call<&Head::kept_actors>().get();
        });
    std::map<std::string, SpawnDescription> left;
    for (const SpawnDescription& actors : kept) left.emplace(actors.name(), actors);
    const std::lock_guard lock(mutex_);
    left_ = std::move(left);
    loaded_ = true;
    changed_.notify_all();
    return true;
  } catch (...) {
    system_.options().log.warning("the actors of the cluster cannot be restarted yet: {}",
                                  current_error().describe());
    return false;
  }
}

void Keeper::start_left() {
  std::deque<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, actors] : left_) names.push_back(name);
  }
  const auto start_all = [this, &names] {
    while (true) {
      std::string name;
      {
        const std::lock_guard lock(mutex_);
        if (names.empty()) return;
        name = std::move(names.front());
        names.pop_front();
      }
      try {
        start_left(name);
      } catch (...) {
        system_.options().log.warning("{} of the cluster cannot be restarted yet: {}", name,
                                      current_error().describe());
      }
      const std::lock_guard lock(mutex_);
      starting_.erase(name);
      changed_.notify_all();
    }
  };
  std::vector<Thread> threads(std::min(names.size(), kMaxStarts));
  for (Thread& thread : threads) thread = Thread("restart", ThreadPriority::kOrdinary, start_all);
  for (Thread& thread : threads) thread.join();
}

void Keeper::start_left(const std::string& name) {
  SpawnDescription actors;
  {
    const std::lock_guard lock(mutex_);
    const auto found = left_.find(name);
    if (stopping_ || found == left_.end()) return;
    actors = found->second;
    starting_.insert(name);
  }
  start(actors);
  {
    const std::lock_guard lock(mutex_);
    if (left_.erase(name) > 0) return;
  }
  cluster_->stop_actors(name);  // forget() was called meanwhile
}

NamedActors Keeper::start(const SpawnDescription& actors) {
  MeshKey ignored;
  const SpawnedActors spawned =
      cluster_->spawn_actors(ignored, wanted_actors(actors), options_of(actors));
  return named_actors(system_, spawned);
}

void Keeper::record(const SpawnDescription& actors) {
  cluster_->head().ask<bool>(kHeadAnswersWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    head.call<&Head::keep_actors>(actors).get();
    return true;
  });
}

NamedActors Keeper::spawn(const SpawnDescription& actors) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return loaded_ || stopping_; });
    if (stopping_) throw_error(ErrorCode::kCancelled, "the head ends");
    if (left_.contains(actors.name()) || starting_.contains(actors.name()) ||
        ending_.contains(actors.name()))
      throw_error(ErrorCode::kAlreadyExists,
                  "{} has actors named '{}' already, which the head is about to restart or end; "
                  "take another name, or end them: weft actors stop {}/{}",
                  kKeeperName, actors.name(), kKeeperName, actors.name());
  }
  // A former keeper has not recorded them.
  discard(actors.name());
  NamedActors started = start(actors);
  std::optional<Error> problem;
  try {
    record(actors);
    return started;
  } catch (const Error& error) {
    problem = error;
  }
  // The next keeper knows only what is recorded.
  try {
    cluster_->stop_actors(actors.name());
  } catch (const Error&) {
    // An operator has stopped them meanwhile.
  }
  throw Error(*problem);
}

void Keeper::forget(const std::string& name) {
  bool is_left = false;
  {
    std::unique_lock lock(mutex_);
    // The constructor waits for this function if it fails.
    if (!ready_)
      throw_error(ErrorCode::kUnavailable, "the head's keeper of actors starts; try again");
    changed_.wait(lock, [this] { return loaded_ || stopping_; });
    if (stopping_) throw_error(ErrorCode::kCancelled, "the head ends");
    is_left = left_.erase(name) > 0;
    if (is_left) ending_.insert(name);
  }
  if (!is_left) return cluster_->stop_actors(name);
  // Other actors may have the name once the head has forgotten these.
  const auto end = [this](const std::string* ended) {
    const std::lock_guard lock(mutex_);
    ending_.erase(*ended);
  };
  const std::unique_ptr<const std::string, decltype(end)> reserved(&name, end);
  cluster_->release_inherited(name);
  withdraw(name);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAttemptEndsWithin,
                      [&] { return !starting_.contains(name) || stopping_; });
  }
  system_.options().log.info("{} of the cluster is not spawned again, as an operator has asked",
                             name);
}

void Keeper::discard(const std::string& name) {
  // Others can have the name once its processes are released.
  cluster_->release_inherited(name, [&] { withdraw(name); });
}

void Keeper::withdraw(const std::string& name) {
  cluster_->head().ask<bool>(kHeadAnswersWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    head.call<&Head::publish_actors>(PublishActors{{}, {name}}).get();
    return true;
  });
}

}  // namespace weft::actors
