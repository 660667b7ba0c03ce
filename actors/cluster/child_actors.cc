#include "actors/cluster/child_actors.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::actors {

bool ChildActors::is_one_of(const Parent& parent, std::span<const ActorAddress> actors) {
  return std::ranges::any_of(actors,
                             [&](const ActorAddress& actor) { return parent_of(actor) == parent; });
}

ChildActors::Begun ChildActors::begin(const ChildSpawn& request) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (closed_ || has_ended(parent_of(request.parent)))
      throw_error(ErrorCode::kCancelled,
                  "{} has ended and spawns no more actors; '{}' was not "
                  "spawned",
                  request.parent.label, request.actors.name());
    const auto earlier = find_earlier(request);
    if (earlier == children_.end()) break;
    if (earlier->second.actors) return {earlier->first, earlier->second.actors};
    changed_.wait(lock);
  }
  Child child = make(request);
  children_.emplace(++last_, std::move(child));
  return {last_, std::nullopt};
}

std::map<ChildActors::Id, ChildActors::Child>::iterator ChildActors::find_earlier(
    const ChildSpawn& request) {
  if (request.number == 0) return children_.end();
  return std::ranges::find_if(children_, [&](const auto& entry) {
    return entry.second.number == request.number &&
           entry.second.parent.first == request.parent.process.id;
  });
}

ChildActors::Child ChildActors::make(const ChildSpawn& request) const {
  Child child{request.actors.name(),
              request.parent.process,
              parent_of(request.parent),
              request.parent_mesh,
              request.number,
              request.decider,
              1,
              request.parent.label};
  if (const Child* above = find(request.parent_mesh)) {
    child.depth = above->depth + 1;
    child.root = above->root;
  }
  if (child.depth > kMaxDepth)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} cannot spawn '{}': {} spawns lie between it and {}, and {} are the limit; let "
                "an actor higher up spawn it, and pass on a handle",
                request.parent.label, child.name, child.depth - 1, child.root, kMaxDepth);
  return child;
}

const ChildActors::Child* ChildActors::find(const std::string& name) const {
  const auto found =
      std::ranges::find_if(children_, [&](const auto& entry) { return entry.second.name == name; });
  return found == children_.end() ? nullptr : &found->second;
}

bool ChildActors::finish(Id child, const NamedActors& actors) {
  const std::lock_guard lock(mutex_);
  Child& finished = children_.at(child);
  if (finished.abandoned) return false;
  finished.actors = actors;
  changed_.notify_all();
  return true;
}

void ChildActors::erase(Id child) {
  const std::lock_guard lock(mutex_);
  children_.erase(child);
  changed_.notify_all();
}

std::vector<std::pair<ProcessRef, ChildEnd>> ChildActors::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<ProcessRef, ChildEnd>> ends;
  std::erase_if(children_, [&](const auto& entry) {
    const Child& child = entry.second;
    if (child.name != name || !child.actors) return false;
    if (!child.abandoned)
      ends.emplace_back(child.process, ChildEnd{child.parent.second, child.number, child.decider});
    return true;
  });
  changed_.notify_all();
  return ends;
}

bool ChildActors::is_abandoned(Id child) const {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(child);
  return found != children_.end() && found->second.abandoned;
}

bool ChildActors::contains(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return find(name) != nullptr;
}

std::string ChildActors::parent_mesh_of(Id child, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto by_id = children_.find(child);
  if (by_id != children_.end()) return by_id->second.parent_mesh;
  const Child* const by_name = child == 0 ? find(name) : nullptr;
  return by_name == nullptr ? "" : by_name->parent_mesh;
}

bool ChildActors::is_child_of(const ActorAddress& parent, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(children_, [&](const auto& entry) {
    return entry.second.name == name && entry.second.parent == parent_of(parent);
  });
}

bool ChildActors::withdraw(const ChildStop& request) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(children_, [&](const auto& entry) {
    const Child& child = entry.second;
    return child.name == request.name && child.number == request.number &&
           child.parent == parent_of(request.parent);
  });
  if (found == children_.end()) return false;
  found->second.abandoned = true;
  changed_.notify_all();
  return found->second.actors.has_value();
}

bool ChildActors::has_to_stop(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(children_, [&](const auto& entry) {
    return entry.second.name == name && entry.second.abandoned && entry.second.actors;
  });
}

std::vector<std::string> ChildActors::ending(std::span<const ActorAddress> parents) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (auto entry = children_.rbegin(); entry != children_.rend(); ++entry) {
    const Child& child = entry->second;
    if (child.abandoned && child.actors && is_one_of(child.parent, parents))
      names.push_back(child.name);
  }
  return names;
}

bool ChildActors::has_children(ProcessId parents) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      children_, [&](const auto& entry) { return entry.second.parent.first == parents; });
}

void ChildActors::mark_ended(const Parent& parent) {
  if (parent.first == own_ || !ended_.insert(parent).second) return;
  ended_order_.push_back(parent);
  if (ended_order_.size() <= kMaxEnded) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

bool ChildActors::has_ended(const Parent& parent) const {
  return ended_.contains(parent) || ended_.contains({parent.first, kNoActor});
}

template <typename Pick>
std::vector<std::string> ChildActors::abandon(Pick pick) {
  std::vector<std::string> names;
  for (auto entry = children_.rbegin(); entry != children_.rend(); ++entry) {
    Child& child = entry->second;
    if (!pick(child)) continue;
    child.abandoned = true;
    if (child.actors) names.push_back(child.name);
  }
  changed_.notify_all();
  return names;
}

std::vector<std::string> ChildActors::end(std::span<const ActorAddress> parents) {
  const std::lock_guard lock(mutex_);
  std::set<Parent> ending;
  for (const ActorAddress& parent : parents) {
    mark_ended(parent_of(parent));
    ending.insert(parent_of(parent));
  }
  return abandon([&](const Child& child) { return ending.contains(child.parent); });
}

std::vector<std::string> ChildActors::end_process(ProcessId process) {
  const std::lock_guard lock(mutex_);
  mark_ended({process, kNoActor});
  return abandon([&](const Child& child) { return child.parent.first == process; });
}

std::vector<std::string> ChildActors::end_all() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  return abandon([](const Child&) { return true; });
}

void ChildActors::wait_until_gone(std::span<const ActorAddress> parents, Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [&] {
    return std::ranges::none_of(children_, [&](const auto& entry) {
      return entry.second.abandoned && is_one_of(entry.second.parent, parents);
    });
  });
}

}  // namespace weft::actors
