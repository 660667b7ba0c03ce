#include "actors/system/internal/peer_links.h"

namespace weft::actors {

namespace {
/// Limit of the remembered dead peers. A head runs for months; the oldest do not return.
constexpr std::size_t kMaxDead = 4096;
}  // namespace

std::shared_ptr<Link> PeerLinks::find(ProcessId process) const {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(process);
  return found == links_.end() ? nullptr : found->second;
}

bool PeerLinks::is_attached(ProcessId process) const {
  const auto link = find(process);
  return link && link->attached();
}

std::vector<std::shared_ptr<Link>> PeerLinks::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Link>> list;
  list.reserve(links_.size());
  for (const auto& [id, link] : links_) list.push_back(link);
  return list;
}

std::vector<std::shared_ptr<Link>> PeerLinks::attached() const {
  std::vector<std::shared_ptr<Link>> list = all();
  std::erase_if(list, [](const auto& link) { return !link->attached(); });
  return list;
}

std::shared_ptr<Link> PeerLinks::find_or_add(const ProcessRef& process) {
  const std::lock_guard lock(mutex_);
  if (const auto found = links_.find(process.id); found != links_.end()) return found->second;
  return links_.emplace(process.id, make_link(process)).first->second;
}

std::shared_ptr<Link> PeerLinks::find_or_add_reachable(const ProcessRef& process) {
  const std::lock_guard lock(mutex_);
  if (const auto found = links_.find(process.id); found != links_.end()) return found->second;
  if (const auto dead = dead_.find(process.id); dead != dead_.end()) throw dead->second;
  if (process.address.port == 0)
    throw_error(ErrorCode::kUnavailable,
                "{} is not connected and does not listen, so this process cannot connect to it",
                process.name);
  return links_.emplace(process.id, make_link(process)).first->second;
}

std::shared_ptr<Link> PeerLinks::make_link(const ProcessRef& process) {
  if (ended_) throw *ended_;
  auto link = std::make_shared<Link>(process, events_, beat_interval_);
  link->set_stream(next_stream());
  return link;
}

void PeerLinks::notify_attached() {
  const std::lock_guard lock(mutex_);
  attached_.notify_all();
}

std::shared_ptr<Link> PeerLinks::wait_attached(ProcessId process, TimePoint deadline) const {
  std::unique_lock lock(mutex_);
  std::shared_ptr<Link> link;
  attached_.wait_until(lock, deadline, [&] {
    const auto found = links_.find(process);
    link = found != links_.end() && found->second->attached() ? found->second : nullptr;
    return link != nullptr;
  });
  return link;
}

void PeerLinks::mark_dead(ProcessId process, const Error& reason, bool better) {
  const std::lock_guard lock(mutex_);
  const auto [dead, is_new] = dead_.try_emplace(process, reason);
  if (!is_new && better) dead->second = reason;
  if (!is_new) return;
  dead_order_.push_back(process);
  if (dead_order_.size() <= kMaxDead) return;
  dead_.erase(dead_order_.front());
  dead_order_.pop_front();
}

std::optional<Error> PeerLinks::death_of(ProcessId process) const {
  const std::lock_guard lock(mutex_);
  const auto dead = dead_.find(process);
  return dead == dead_.end() ? std::nullopt : std::optional(dead->second);
}

void PeerLinks::begin_dial(ProcessId process, std::function<void()> cancel) {
  dials_[process] = std::move(cancel);
}

void PeerLinks::cancel_dial(ProcessId process) {
  const auto dial = dials_.find(process);
  if (dial == dials_.end()) return;
  dial->second();
  dials_.erase(dial);
}

void PeerLinks::drop(const std::shared_ptr<Link>& link, const Error& reason, DisconnectCause how) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(link->peer_id());
    if (found == links_.end() || found->second != link) return;  // dropped already
    links_.erase(found);
  }
  cancel_dial(link->peer_id());
  link->close_connection(reason);
  dropped_(*link, reason, how);
}

std::vector<std::shared_ptr<Link>> PeerLinks::take_all(const Error& why) {
  for (auto& [id, cancel] : dials_) cancel();
  dials_.clear();
  const std::lock_guard lock(mutex_);
  ended_ = why;
  std::vector<std::shared_ptr<Link>> taken;
  taken.reserve(links_.size());
  for (auto& [id, link] : links_) taken.push_back(std::move(link));
  links_.clear();
  return taken;
}

}  // namespace weft::actors
