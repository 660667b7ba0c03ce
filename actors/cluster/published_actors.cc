#include "actors/cluster/published_actors.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace weft::actors {
namespace {

/// Time for a reply of the head, after which the call is repeated.
constexpr Nanoseconds kHeadConfirmsWithin = std::chrono::seconds(5);
/// Pause before a call is repeated.
constexpr Nanoseconds kSendAgainAfter = std::chrono::milliseconds(100);
/// Longest wait of a thread that publishes.
constexpr Nanoseconds kLongestConfirmation = std::chrono::seconds(2);
/// Pause of a handler that waits for a confirmation.
constexpr Nanoseconds kLookAgainAfter = std::chrono::milliseconds(10);

/// Returns true if the head refuses the text of a name, and has recorded the other names.
bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kDataLoss;
}

}  // namespace

std::string mesh_of(const ActorAddress& actor) {
  return actor.label.substr(0, actor.label.find('['));
}

NamedActors named_actors(const System& system, const SpawnedActors& actors) {
  NamedActors named{actors.name, actors.interface, actors.shape, {}};
  for (const auto& address : actors.addresses) {
    if (system.has_ended(*address))
      named.ended.insert(static_cast<std::uint32_t>(named.addresses.size()));
    named.addresses.push_back(system.last_known_address(*address));
  }
  return named;
}

task<void> NamePublisher::send() {
  while (true) {
    std::optional<Error> problem;
    try {
      std::optional<Future<void>> answer = names_.begin_call();
      if (!answer) co_return;
      co_await std::move(*answer);
    } catch (const Error& error) {
      problem = error;
    }
    if (problem && is_refusal(*problem)) {
      context_.log().error("names of actors were refused: {}", problem->message());
      problem.reset();
    }
    names_.end_call(problem);
    if (!problem) continue;
    try {
      co_await context_.sleep(kSendAgainAfter);
    } catch (const Error&) {
      co_return;  // this actor is stopped
    }
  }
}

task<void> NamePublisher::confirm() {
  const std::uint64_t changes = names_.changes();
  const TimePoint give_up = SteadyClock().now() + kLongestConfirmation;
  while (!names_.is_confirmed(changes) && SteadyClock().now() < give_up)
    co_await context_.sleep(kLookAgainAfter);
}

PublishedActors::PublishedActors(System& system, const HeadLink& head)
    : system_(system), head_(head) {
  publisher_ = system_.host_with<NamePublisher>("name-publisher", [this](Context& context) {
    return std::make_unique<NamePublisher>(context, *this);
  });
}

PublishedActors::~PublishedActors() {
  try {
    publisher_.stop().get();
  } catch (const Error&) {
    // The system has already stopped the actor.
  }
}

void PublishedActors::publish(const MeshKey& key, const SpawnedActors& actors) {
  {
    const std::lock_guard lock(mutex_);
    // Under the lock: note_end() follows an end that is not known here yet.
    actors_[actors.name] = {key, named_actors(system_, actors)};
    any_so_far_ = true;
    mark(actors.name, false);
  }
  wake_publisher();
  wait_until_confirmed();
}

void PublishedActors::republish(const SpawnedActors& actors) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = actors_.find(actors.name);
    if (found == actors_.end()) return;
    found->second.actors = named_actors(system_, actors);
    mark(actors.name, false);
  }
  wake_publisher();
}

void PublishedActors::note_end(const ActorAddress& actor) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = actors_.find(mesh_of(actor));
    if (found == actors_.end()) return;
    NamedActors& actors = found->second.actors;
    const auto ended = std::ranges::find_if(actors.addresses, [&](const ActorAddress& each) {
      return each.process.id == actor.process.id && each.actor == actor.actor;
    });
    if (ended == actors.addresses.end()) return;
    actors.ended.insert(static_cast<std::uint32_t>(ended - actors.addresses.begin()));
    mark(actors.name, false);
  }
  wake_publisher();
}

void PublishedActors::withdraw(const MeshKey& key) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = actors_.find(key.name);
    if (found == actors_.end() || found->second.key != key) return;
    actors_.erase(found);
    mark(key.name, true);
  }
  wake_publisher();
}

void PublishedActors::withdraw_inherited(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    if (actors_.contains(name)) return;
    mark(name, true);
  }
  wake_publisher();
}

void PublishedActors::send_all() {
  {
    const std::lock_guard lock(mutex_);
    // The names that the driver's predecessor left stay until their meshes are spawned again.
    if (!any_so_far_) return;
    all_unsent_ = true;
    ++changes_;
  }
  wake_publisher();
}

void PublishedActors::mark(const std::string& name, bool have_ended) {
  bool& any_have_ended = unsent_[name];
  any_have_ended = any_have_ended || have_ended;
  ++changes_;
}

void PublishedActors::wake_publisher() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(publisher_runs_, true)) return;
  }
  publisher_.within(kNoDeadline).tell<&NamePublisher::send>();
}

std::optional<Future<void>> PublishedActors::begin_call() {
  const std::lock_guard lock(mutex_);
  if (unsent_.empty() && !all_unsent_) {
    publisher_runs_ = false;
    return std::nullopt;
  }
  sending_ = std::exchange(unsent_, {});
  all_sending_ = std::exchange(all_unsent_, false);
  changes_sending_ = changes_;
  PublishActors request;
  request.all = all_sending_;
  for (const auto& [name, have_ended] : sending_)
    if (have_ended) request.withdrawn.push_back(name);
  for (const auto& [name, published] : actors_)
    if (all_sending_ || sending_.contains(name)) request.actors.push_back(published.actors);
  // Sent under the lock: a later change of a name must not overtake this call.
  return head_.head().within(kHeadConfirmsWithin).call<&Head::publish_actors>(request);
}

void PublishedActors::end_call(const std::optional<Error>& problem) {
  const std::lock_guard lock(mutex_);
  if (problem) {
    for (const auto& [name, have_ended] : sending_) mark(name, have_ended);
    all_unsent_ = all_unsent_ || all_sending_;
    // A head that has too many calls in its queue takes the call soon.
    if (problem->code() != ErrorCode::kResourceExhausted) ++losses_;
  } else {
    changes_confirmed_ = changes_sending_;
  }
  sending_.clear();
  all_sending_ = false;
  changed_.notify_all();
}

void PublishedActors::wait_until_confirmed() const {
  try {
    (void)head_.reach({});
  } catch (const Error&) {
    return;
  }
  std::unique_lock lock(mutex_);
  const std::uint64_t changes = changes_;
  const std::uint64_t losses = losses_;
  changed_.wait_for(lock, kLongestConfirmation,
                    [&] { return changes_confirmed_ >= changes || losses_ != losses; });
}

Future<void> PublishedActors::confirmation() const {
  return publisher_.call<&NamePublisher::confirm>();
}

std::uint64_t PublishedActors::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

bool PublishedActors::is_confirmed(std::uint64_t changes) const {
  const std::lock_guard lock(mutex_);
  return changes_confirmed_ >= changes;
}

std::optional<PublishedActors::Published> PublishedActors::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = actors_.find(name);
  return found == actors_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace weft::actors
