#include "actors/head/actor_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/name.h"
#include "core/base/nearest.h"

namespace weft::actors {
namespace {

/// Earlier incarnations that are kept for each actor, on average.
constexpr std::size_t kFormerPerActor = 8;
/// Time in which an owner stops its actors.
constexpr Nanoseconds kOwnerStopsWithin = std::chrono::seconds(40);

std::string row_name(const std::pair<ProcessId, std::string>& key) {
  return fmt::format("{}/{}", key.first.value(), key.second);
}

std::string label_of(const NamedActors& actors, std::int64_t rank) {
  return actors.name + to_string(actors.shape, actors.shape.coordinates(rank));
}

/// Longest wait of a call.
constexpr Nanoseconds kLongestFind = std::chrono::hours(24);
/// Characters of the longest name of a run: owners of one name are numbered, as in "quickstart#2".
constexpr std::size_t kLongestRun = 120;

/// Wait of a call for changes of a subject, limited in time. Lives in the call's frame.
template <typename Subject>
class ChangeWait final {
 public:
  ChangeWait(const Context& context, std::multimap<Subject, Wakeup>& waiters,
             const Subject& subject, Nanoseconds within)
      : changed_(context.make_wakeup()),
        waiters_(waiters),
        position_(waiters.emplace(subject, changed_)),
        timer_(context.after(std::min(within, kLongestFind), [this] {
          is_over_ = true;
          changed_.notify();
        })) {}
  ~ChangeWait() { waiters_.erase(position_); }
  ChangeWait(const ChangeWait&) = delete;
  ChangeWait& operator=(const ChangeWait&) = delete;

  Wakeup::Waiting change() const { return changed_.wait(); }
  /// Returns whether the time has passed.
  bool is_over() const { return is_over_; }

 private:
  const Wakeup changed_;
  std::multimap<Subject, Wakeup>& waiters_;
  const typename std::multimap<Subject, Wakeup>::iterator position_;
  bool is_over_ = false;
  ActorTimer timer_;
};

template <typename Subject>
void notify(const std::multimap<Subject, Wakeup>& waiters, const Subject& subject) {
  const auto [first, last] = waiters.equal_range(subject);
  for (auto waiter = first; waiter != last; ++waiter) waiter->second.notify();
}

}  // namespace

ActorDirectory::ScopedName ActorDirectory::parse(const std::string& text) {
  ScopedName parsed{std::nullopt, text};
  if (const auto slash = text.find('/'); slash != std::string::npos) {
    parsed = {text.substr(0, slash), text.substr(slash + 1)};
    if (parsed.run->empty() || parsed.run->size() > kLongestRun)
      throw_error(ErrorCode::kInvalidArgument,
                  "the run of RUN/NAME: expected 1 to {} characters, found {}", kLongestRun,
                  parsed.run->size());
  }
  check_name("the name of actors", parsed.name);
  return parsed;
}

void ActorDirectory::read_rows() {
  for (const auto& [name, bytes] : store_.rows(StateStore::Table::kActors)) {
    auto row = decode<ActorRow>(bytes);
    check_row(row);
    if (!owners_.registration(row.owner)) {
      store_.erase(StateStore::Table::kActors, name);
      continue;
    }
    const Key key(row.owner, row.actors.name);
    add(key, {std::move(row.actors), {row.former.begin(), row.former.end()}});
  }
}

void ActorDirectory::save(const Key& key, const Entry& entry) {
  store_.put(StateStore::Table::kActors, row_name(key),
             encode(ActorRow{key.first, entry.actors, {entry.former.begin(), entry.former.end()}}));
}

void ActorDirectory::add(const Key& key, Entry entry) {
  const std::vector<ActorAddress>& addresses = entry.actors.addresses;
  for (std::uint32_t rank = 0; rank < addresses.size(); ++rank)
    add_place(key_of(addresses[rank]), {key, rank});
  for (const FormerActor& former : entry.former)
    add_place({former.process, former.actor}, {key, former.rank});
  owners_of_[key.second].insert(key.first);
  entries_.insert_or_assign(key, std::move(entry));
  notify(finds_, key.second);
}

void ActorDirectory::erase(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  const auto owners = owners_of_.find(key.second);
  owners->second.erase(key.first);
  if (owners->second.empty()) owners_of_.erase(owners);
  for (const FormerActor& former : entry.former)
    erase_place({former.process, former.actor}, {key, former.rank});
  const std::vector<ActorAddress>& addresses = entry.actors.addresses;
  for (std::uint32_t rank = 0; rank < addresses.size(); ++rank) {
    erase_place(key_of(addresses[rank]), {key, rank});
    notify(locates_, key_of(addresses[rank]));
  }
  store_.erase(StateStore::Table::kActors, row_name(key));
}

void ActorDirectory::erase_place(const ActorKey& actor, const Place& place) {
  const auto [first, last] = places_.equal_range(actor);
  const auto found = std::find_if(first, last, [&](const auto& of) { return of.second == place; });
  if (found != last) places_.erase(found);
}

std::vector<ActorDirectory::Key> ActorDirectory::keys_of(ProcessId owner) const {
  std::vector<Key> keys;
  for (auto entry = entries_.lower_bound({owner, ""});
       entry != entries_.end() && entry->first.first == owner; ++entry)
    keys.push_back(entry->first);
  return keys;
}

void ActorDirectory::publish(ProcessId owner, PublishActors changes) {
  if (!owners_.registration(owner))
    throw_error(ErrorCode::kFailedPrecondition,
                "only a program that has registered as an owner of meshes can publish names");
  for (const std::string& name : changes.withdrawn) erase({owner, name});
  if (changes.all) erase_unlisted(owner, changes.actors);
  std::optional<Error> problem;
  for (NamedActors& actors : changes.actors) {
    try {
      record(owner, std::move(actors));
    } catch (const Error& error) {
      if (!problem) problem = error;
    }
  }
  store_.flush();
  if (problem) throw Error(*problem);
}

void ActorDirectory::erase_unlisted(ProcessId owner, const std::vector<NamedActors>& listed) {
  // A new driver lists the names of its predecessor's meshes only when it has spawned them again.
  std::set<std::string> kept = meshes_.names_of(owner);
  for (const NamedActors& actors : listed) kept.insert(actors.name);
  for (const Key& key : keys_of(owner))
    if (!kept.contains(key.second)) erase(key);
}

void ActorDirectory::record(ProcessId owner, NamedActors actors) {
  check_name("the name of actors", actors.name);
  check_actors(actors);
  const Key key(owner, actors.name);
  const auto known = entries_.find(key);
  if (known == entries_.end()) {
    save(key, {actors, {}});
    return add(key, {std::move(actors), {}});
  }
  Entry& entry = known->second;
  // An owner that has reconnected lists all its names.
  if (entry.actors.shape == actors.shape && entry.actors.addresses == actors.addresses &&
      entry.actors.ended == actors.ended)
    return;
  entry.actors.interface = std::move(actors.interface);
  entry.actors.ended = std::move(actors.ended);
  entry.actors.shape = std::move(actors.shape);
  replace_addresses(key, entry, std::move(actors.addresses));
  save(key, entry);
  notify(finds_, key.second);
}

void ActorDirectory::replace_addresses(const Key& key, Entry& entry,
                                       std::vector<ActorAddress> addresses) {
  const std::vector<ActorAddress> before =
      std::exchange(entry.actors.addresses, std::move(addresses));
  const std::vector<ActorAddress>& now = entry.actors.addresses;
  for (std::uint32_t rank = 0; rank < std::max(before.size(), now.size()); ++rank) {
    const bool was = rank < before.size();
    const bool is = rank < now.size();
    if (was && is && key_of(before[rank]) == key_of(now[rank])) continue;
    if (is) add_place(key_of(now[rank]), {key, rank});
    if (!was) continue;
    const auto& [process, actor] = key_of(before[rank]);
    // The place of an actor that is replaced stays, as that of a former one.
    if (is) entry.former.push_back({process, actor, rank});
    else erase_place({process, actor}, {key, rank});
    notify(locates_, {process, actor});
  }
  while (entry.former.size() > kFormerPerActor * now.size()) {
    const FormerActor& oldest = entry.former.front();
    erase_place({oldest.process, oldest.actor}, {key, oldest.rank});
    entry.former.pop_front();
  }
}

void ActorDirectory::transfer(ProcessId from, ProcessId to) {
  for (const Key& former : keys_of(from)) {
    Entry moved = entries_.at(former);
    erase(former);
    const Key key(to, former.second);
    erase(key);
    save(key, moved);
    add(key, std::move(moved));
  }
}

void ActorDirectory::remove_all_of(ProcessId owner) {
  for (const Key& key : keys_of(owner)) erase(key);
}

ProcessId ActorDirectory::owner_of(ProcessId caller) const {
  if (owners_.registration(caller)) return caller;
  return meshes_.owner_of(caller).value_or(ProcessId());
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

const ActorDirectory::Entries::value_type* ActorDirectory::look_up(ProcessId own,
                                                                   const ScopedName& wanted) const {
  const auto owners = owners_of_.find(wanted.name);
  if (owners == owners_of_.end()) return nullptr;
  const auto entry_of = [&](ProcessId owner) { return &*entries_.find({owner, wanted.name}); };
  if (!wanted.run) {
    if (owners->second.contains(own)) return entry_of(own);
    for (const ProcessId owner : owners->second)
      if (owners_.is_keeper(owner)) return entry_of(owner);
    // A process of a run must say which other run it means.
    if (own != ProcessId()) return nullptr;
  }
  std::vector<ProcessId> found;
  std::vector<std::string> full_names;
  for (const ProcessId owner : owners->second) {
    if (wanted.run && !is_run(owner, *wanted.run)) continue;
    found.push_back(owner);
    full_names.push_back(fmt::format("{}/{}", run_name(owner), wanted.name));
  }
  if (found.size() > 1)
    throw_error(ErrorCode::kInvalidArgument, "several runs have actors named '{}': {}; give one",
                wanted.name, fmt::join(full_names, ", "));
  return found.empty() ? nullptr : entry_of(found.front());
}

void ActorDirectory::fail_not_found(ProcessId own, const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [key, entry] : entries_) {
    known.push_back(fmt::format("{}/{}", run_name(key.first), key.second));
    // Names that the caller can give without a run.
    if (own == ProcessId() || key.first == own || owners_.is_keeper(key.first))
      known.push_back(key.second);
  }
  const std::string where =
      own == ProcessId() ? "this cluster" : fmt::format("run {}", run_name(own));
  throw_error(ErrorCode::kNotFound, "no actor is named '{}' in {}{}; `weft actors` lists all names",
              name, where, did_you_mean(name, known));
}

task<NamedActors> ActorDirectory::find(ProcessId caller, FindActors request) {
  const ScopedName wanted = parse(request.name);
  ProcessId own = owner_of(caller);
  std::optional<ChangeWait<std::string>> wait;
  while (true) {
    if (const auto* const found = look_up(own, wanted)) co_return found->second.actors;
    if (request.within_ns <= 0 || (wait && wait->is_over())) fail_not_found(own, request.name);
    if (!wait) wait.emplace(context_, finds_, wanted.name, Nanoseconds(request.within_ns));
    co_await wait->change();
    // The next driver of the caller's run may have replaced the owner.
    if (own != ProcessId() && !owners_.registration(own)) own = owner_of(caller);
  }
}

const ActorAddress* ActorDirectory::find_actor(const ActorKey& actor) const {
  const ActorAddress* now = nullptr;
  const auto [first, last] = places_.equal_range(actor);
  for (auto of = first; of != last; ++of) {
    const Place& place = of->second;
    const std::vector<ActorAddress>& addresses = entries_.at(place.name).actors.addresses;
    if (place.rank >= addresses.size()) continue;
    now = &addresses[place.rank];
    if (key_of(*now) == actor) return now;
  }
  return now;
}

task<ActorAddress> ActorDirectory::locate(LocateActor request) {
  const ActorKey lost = key_of(request.lost);
  std::optional<ChangeWait<ActorKey>> wait;
  while (true) {
    const ActorAddress* const now = find_actor(lost);
    if (now == nullptr)
      throw_error(ErrorCode::kNotFound,
                  "{} has ended with the program that owned it, {}; nobody restarts it",
                  request.lost.label, request.lost.owner.name);
    const bool is_over = request.within_ns <= 0 || (wait && wait->is_over());
    if (key_of(*now) != lost || is_over) co_return *now;
    if (!wait) wait.emplace(context_, locates_, lost, Nanoseconds(request.within_ns));
    co_await wait->change();
  }
}

task<void> ActorDirectory::stop(ProcessId caller, std::string name) {
  const ProcessId own = owner_of(caller);
  const auto* const found = look_up(own, parse(name));
  if (found == nullptr) fail_not_found(own, name);
  const auto owner = owners_.process_of(found->first.first);
  if (!owner)
    throw_error(ErrorCode::kUnavailable,
                "the program that owns {} does not answer the head at the moment; try again later",
                name);
  auto stopping = context_.system()
                      .named<HeadNotifications>(*owner, "watcher")
                      .within(kOwnerStopsWithin)
                      .call<&HeadNotifications::stop_actors>(found->first.second);
  co_await stopping;
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
      if (const auto found = members.find({address.process.id, key.second});
          found != members.end()) {
        const MeshTable::Member& member = found->second;
        status.host = member.device.place.host;
        status.pid = member.device.pid;
        status.state = member.is_dead ? "dead" : member.state;
      }
      if (entry.actors.ended.contains(static_cast<std::uint32_t>(rank))) status.state = "ended";
      list.push_back(std::move(status));
    }
  std::ranges::stable_sort(list, {}, &ActorStatus::run);
  return list;
}

}  // namespace weft::actors
