#include "actors/head/actor_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/nearest.h"

namespace weft::actors {
namespace {

/// Earlier incarnations that are kept for each actor, on average.
constexpr std::size_t kFormerPerActor = 8;
/// Time in which an owner stops its actors.
constexpr Nanoseconds kStopWithin = std::chrono::seconds(40);

std::string row_name(const std::pair<ProcessId, std::string>& key) {
  return fmt::format("{}/{}", key.first.value(), key.second);
}

std::string label_of(const NamedActors& actors, std::int64_t rank) {
  return actors.name + to_string(actors.shape, actors.shape.coordinates(rank));
}

/// Name with the run that it asks for; no run: that of the caller.
struct ScopedName {
  std::optional<std::string> run;
  std::string name;
};

ScopedName split(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return {std::nullopt, text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

}  // namespace

void ActorDirectory::read_rows() {
  for (const auto& [name, bytes] : store_.rows(StateStore::Table::kActors)) {
    auto row = decode<ActorRow>(bytes);
    check_row(row);
    if (!owners_.registration(row.owner)) {
      store_.erase(StateStore::Table::kActors, name);
      continue;
    }
    const Key key(row.owner, row.actors.name);
    entries_[key] = {std::move(row.actors), {row.former.begin(), row.former.end()}};
  }
}

void ActorDirectory::save(const Key& key, const Entry& entry) {
  store_.put(StateStore::Table::kActors, row_name(key),
             encode(ActorRow{key.first, entry.actors, {entry.former.begin(), entry.former.end()}}));
}

void ActorDirectory::erase(const Key& key) {
  entries_.erase(key);
  store_.erase(StateStore::Table::kActors, row_name(key));
}

void ActorDirectory::publish(ProcessId owner, NamedActors actors) {
  if (!owners_.registration(owner)) return;
  const Key key(owner, actors.name);
  check_row(ActorRow{owner, actors, {}});
  Entry& entry = entries_[key];
  const auto& before = entry.actors.addresses;
  for (std::uint32_t rank = 0; rank < before.size() && rank < actors.addresses.size(); ++rank)
    if (before[rank].process.id != actors.addresses[rank].process.id ||
        before[rank].actor != actors.addresses[rank].actor)
      entry.former.push_back({before[rank].process.id, before[rank].actor, rank});
  while (entry.former.size() > kFormerPerActor * actors.addresses.size()) entry.former.pop_front();
  entry.actors = std::move(actors);
  save(key, entry);
  store_.flush();
  notify_waiters();
}

void ActorDirectory::withdraw(ProcessId owner, const std::string& name) {
  const Key key(owner, name);
  if (!entries_.contains(key)) return;
  erase(key);
  notify_waiters();
}

void ActorDirectory::transfer(ProcessId from, ProcessId to) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->first.first != from) {
      ++entry;
      continue;
    }
    const Key key(to, entry->first.second);
    Entry moved = std::move(entry->second);
    store_.erase(StateStore::Table::kActors, row_name(entry->first));
    entry = entries_.erase(entry);
    save(key, moved);
    entries_.insert_or_assign(key, std::move(moved));
  }
}

void ActorDirectory::remove_all_of(ProcessId owner) {
  std::vector<Key> gone;
  for (const auto& [key, entry] : entries_)
    if (key.first == owner) gone.push_back(key);
  for (const Key& key : gone) erase(key);
  if (!gone.empty()) notify_waiters();
}

ProcessId ActorDirectory::owner_of(ProcessId caller) const {
  if (owners_.registration(caller)) return caller;
  const auto member = meshes_.find_process(caller);
  return member ? member->owner : ProcessId();
}

std::string ActorDirectory::run_name(ProcessId owner) const {
  if (owners_.is_keeper(owner)) return kKeeperName;
  const RunRecord* const run = runs_.running(owner);
  return run == nullptr ? owners_.name_of(owner) : run->name;
}

bool ActorDirectory::is_run(ProcessId owner, const std::string& name_or_number) const {
  if (run_name(owner) == name_or_number) return true;
  const RunRecord* const run = runs_.running(owner);
  return run != nullptr && std::to_string(run->number) == name_or_number;
}

const NamedActors* ActorDirectory::look_up(ProcessId caller, const std::string& name) const {
  const ScopedName wanted = split(name);
  if (!wanted.run) {
    const auto own = entries_.find({owner_of(caller), wanted.name});
    if (own != entries_.end()) return &own->second.actors;
    for (const auto& [key, entry] : entries_)
      if (key.second == wanted.name && owners_.is_keeper(key.first)) return &entry.actors;
  }
  std::vector<const NamedActors*> found;
  std::vector<std::string> full_names;
  for (const auto& [key, entry] : entries_) {
    if (key.second != wanted.name || (wanted.run && !is_run(key.first, *wanted.run))) continue;
    found.push_back(&entry.actors);
    full_names.push_back(fmt::format("{}/{}", run_name(key.first), key.second));
  }
  // A process of a run must say which other run it means.
  if (!wanted.run && owner_of(caller) != ProcessId()) return nullptr;
  if (found.size() > 1)
    throw_error(ErrorCode::kInvalidArgument, "several runs have actors named '{}': {}; give one",
                wanted.name, fmt::join(full_names, ", "));
  return found.empty() ? nullptr : found.front();
}

void ActorDirectory::fail_not_found(ProcessId caller, const std::string& name) const {
  const ProcessId own = owner_of(caller);
  std::vector<std::string> known;
  for (const auto& [key, entry] : entries_)
    known.push_back(key.first == own ? key.second
                                     : fmt::format("{}/{}", run_name(key.first), key.second));
  const std::string where =
      own == ProcessId() ? "this cluster" : fmt::format("run {}", run_name(own));
  throw_error(ErrorCode::kNotFound, "no actor is named '{}' in {}{}; `weft actors` lists all names",
              name, where, did_you_mean(name, known));
}

task<void> ActorDirectory::change(TimePoint until) {
  const Wakeup changed = context_.make_wakeup();
  const std::uint64_t number = next_waiter_++;
  // A cancelled wait throws.
  const auto erase = [this](const std::uint64_t* waiter) { waiters_.erase(*waiter); };
  const std::unique_ptr<const std::uint64_t, decltype(erase)> registered(&number, erase);
  waiters_.emplace(number, changed);
  co_await changed.wait_for(until - clock_.now());
}

void ActorDirectory::notify_waiters() {
  for (const auto& [number, waiter] : std::exchange(waiters_, {})) waiter.notify();
}

task<NamedActors> ActorDirectory::find(ProcessId caller, FindActors request) {
  const TimePoint until = clock_.now() + Nanoseconds(request.within_ns);
  while (true) {
    if (const NamedActors* const found = look_up(caller, request.name)) co_return *found;
    if (clock_.now() >= until) fail_not_found(caller, request.name);
    auto changed = change(until);
    co_await changed;
  }
}

task<ActorAddress> ActorDirectory::locate(LocateActor request) {
  const TimePoint until = clock_.now() + Nanoseconds(request.within_ns);
  const ActorAddress& lost = request.lost;
  while (true) {
    const ActorAddress* now = nullptr;
    for (const auto& [key, entry] : entries_) {
      for (const FormerActor& former : entry.former)
        if (former.process == lost.process.id && former.actor == lost.actor &&
            former.rank < entry.actors.addresses.size())
          now = &entry.actors.addresses[former.rank];
      for (const ActorAddress& present : entry.actors.addresses)
        if (present.process.id == lost.process.id && present.actor == lost.actor) now = &present;
    }
    if (now == nullptr)
      throw_error(ErrorCode::kNotFound,
                  "{} has ended with the program that owned it, {}; nobody restarts it", lost.label,
                  lost.owner.name);
    const bool moved = now->process.id != lost.process.id || now->actor != lost.actor;
    if (moved || clock_.now() >= until) co_return *now;
    auto changed = change(until);
    co_await changed;
  }
}

task<void> ActorDirectory::stop(ProcessId caller, std::string name) {
  const NamedActors* const found = look_up(caller, name);
  if (found == nullptr) fail_not_found(caller, name);
  for (const auto& [key, entry] : entries_) {
    if (&entry.actors != found) continue;
    const auto owner = owners_.process_of(key.first);
    if (!owner)
      throw_error(
          ErrorCode::kUnavailable,
          "the program that owns {} does not answer the head at the moment; try again later", name);
    auto stopping = context_.system()
                        .named<HeadNotifications>(*owner, "watcher")
                        .within(kStopWithin)
                        .call<&HeadNotifications::stop_actors>(key.second);
    co_await stopping;
    co_return;
  }
}

std::vector<ActorStatus> ActorDirectory::statuses() const {
  std::vector<ActorStatus> list;
  const auto members = meshes_.members();
  for (const auto& [key, entry] : entries_)
    for (std::size_t rank = 0; rank < entry.actors.addresses.size(); ++rank) {
      const ActorAddress& address = entry.actors.addresses[rank];
      ActorStatus status{owners_.is_keeper(key.first) ? "" : run_name(key.first),
                         label_of(entry.actors, static_cast<std::int64_t>(rank)),
                         entry.actors.interface.name,
                         "",
                         0,
                         "dead",
                         address};
      if (const auto found = members.find(address.process.id); found != members.end()) {
        const MeshTable::Member& member = found->second;
        status.host = member.device.place.host;
        status.pid = member.device.pid;
        status.state = member.is_dead ? "dead" : member.state;
      }
      list.push_back(std::move(status));
    }
  std::ranges::stable_sort(list, {}, &ActorStatus::run);
  return list;
}

}  // namespace weft::actors
