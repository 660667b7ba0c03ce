#include <algorithm>
#include <utility>

#include "actors/system/internal/pending_calls.h"
#include "actors/system/internal/system_methods.h"

namespace weft::actors {

namespace {

/// Hash of the actor at an address. Ids of processes are random, and those of actors count.
std::uint32_t hash_of(const ActorAddress& actor) {
  const std::uint64_t both = actor.process.id.value() + actor.actor.value();
  return static_cast<std::uint32_t>(both ^ both >> 32);
}

}  // namespace

bool PendingCalls::add(const std::shared_ptr<CallState>& call) {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && slots_.size() >= purge_at_) {
    // Calls that ended otherwise (cancelled, refused) still hold slots.
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].call || !slots_[i].call->done()) continue;
      (void)release(slots_[i]);
    }
    purge_at_ = std::max<std::size_t>(1024, 2 * (slots_.size() - free_.size()));
  }
  if (free_.empty()) {
    free_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].call = call;
  slots_[index].target_hash = hash_of(*call->target);
  call->sequence = ++last_sequence_;
  call->id = std::uint64_t{slots_[index].generation} << 32 | index;
  if (call->deadline >= earliest_) return false;
  earliest_ = call->deadline;
  return true;
}

PendingCalls::CallSlot* PendingCalls::find(std::uint64_t id) {
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= slots_.size() || slots_[index].generation != id >> 32 || !slots_[index].call)
    return nullptr;
  return &slots_[index];
}

std::shared_ptr<CallState> PendingCalls::release(CallSlot& slot) {
  slot.kept.reset();
  ++slot.generation;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
  return std::exchange(slot.call, nullptr);
}

PendingCalls::Taken PendingCalls::clear(CallSlot& slot) {
  Taken taken{nullptr, slot.destination()};
  taken.call = release(slot);
  return taken;
}

void PendingCalls::keep(const CallState& call, const Call& message, bool repeatable) {
  const std::lock_guard lock(mutex_);
  CallSlot* const slot = find(call.id);
  if (slot == nullptr) return;
  slot->kept = std::make_unique<KeptMessage>(KeptMessage{message, call.target});
  slot->kept->message.id = call.id;
  slot->kept->repeatable = repeatable;
}

void PendingCalls::keep_in_tree(const CallState& call, const Call& message,
                                std::shared_ptr<const std::vector<std::byte>> arguments,
                                std::shared_ptr<const ActorAddress> destination, bool repeatable) {
  keep(call, message, repeatable);
  const std::lock_guard lock(mutex_);
  CallSlot* const slot = find(call.id);
  if (slot == nullptr || !slot->kept) return;
  slot->kept->arguments = std::move(arguments);
  slot->kept->destination = std::move(destination);
  slot->kept->waits = false;
}

std::shared_ptr<const ActorAddress> PendingCalls::destination(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const CallSlot* const slot = find(id);
  return slot == nullptr ? nullptr : slot->destination();
}

std::optional<Call> PendingCalls::message_to(std::uint64_t id, const ActorAddress& destination) {
  const std::lock_guard lock(mutex_);
  CallSlot* const slot = find(id);
  if (slot == nullptr || !slot->kept) return std::nullopt;
  KeptMessage& kept = *slot->kept;
  if (!std::exchange(kept.waits, false)) return std::nullopt;
  if (slot->call->sent && !kept.repeatable) return std::nullopt;
  if (*kept.destination != destination)
    kept.destination = std::make_shared<const ActorAddress>(destination);
  Call message = kept.message;
  if (kept.arguments) message.arguments = *kept.arguments;
  message.actor = destination.actor;
  return message;
}

PendingCalls::Resend PendingCalls::wait_to_resend(const CallState& call) {
  const std::lock_guard lock(mutex_);
  CallSlot* const slot = find(call.id);
  if (slot == nullptr || !slot->kept) return Resend::kRefused;
  KeptMessage& kept = *slot->kept;
  // The loss of a process is reported more than once.
  if (kept.waits) return Resend::kWaitsAlready;
  // A generator is not repeated once it has yielded: its reader has used the values.
  if (call.sent && (!kept.repeatable || call.yielded || ++kept.attempts > kMaxAttempts))
    return Resend::kRefused;
  kept.waits = true;
  return Resend::kWaits;
}

std::shared_ptr<CallState> PendingCalls::find_call(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const CallSlot* const slot = find(id);
  return slot == nullptr ? nullptr : slot->call;
}

std::shared_ptr<CallState> PendingCalls::take(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  CallSlot* const slot = find(id);
  return slot == nullptr ? nullptr : release(*slot);
}

template <typename Which>
std::vector<PendingCalls::Taken> PendingCalls::take_if(Which which) {
  std::vector<Taken> taken;
  for (CallSlot& slot : slots_)
    if (slot.call && which(slot)) taken.push_back(clear(slot));
  return taken;
}

std::vector<PendingCalls::Taken> PendingCalls::take_all_of(ProcessId process) {
  const std::lock_guard lock(mutex_);
  return take_if([&](const CallSlot& slot) {
    // Calls to relay are no calls of their receiver. Those in them are.
    return slot.destination()->process.id == process && slot.call->method != kRelayMethod;
  });
}

std::vector<PendingCalls::Taken> PendingCalls::take_all_of(const std::set<ActorKey>& actors) {
  const std::lock_guard lock(mutex_);
  return take_if(
      [&](const CallSlot& slot) { return actors.contains(ActorKey::of(*slot.destination())); });
}

template <typename Which>
std::vector<std::shared_ptr<CallState>> PendingCalls::sent_if(Which which) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CallState>> found;
  for (const CallSlot& slot : slots_)
    if (slot.call && slot.call->sent && !(slot.kept && slot.kept->waits) && which(slot))
      found.push_back(slot.call);
  std::ranges::sort(found, {}, &CallState::sequence);
  return found;
}

std::vector<std::shared_ptr<CallState>> PendingCalls::sent_to(ProcessId process) {
  return sent_if([&](const CallSlot& slot) { return slot.destination()->process.id == process; });
}

std::vector<std::shared_ptr<CallState>> PendingCalls::sent_to(const std::set<ActorKey>& actors) {
  return sent_if(
      [&](const CallSlot& slot) { return actors.contains(ActorKey::of(*slot.destination())); });
}

std::shared_ptr<CallState> PendingCalls::kept_call(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const CallSlot* const slot = find(id);
  return slot == nullptr || !slot->kept ? nullptr : slot->call;
}

std::vector<PendingCalls::Taken> PendingCalls::take_all() {
  const std::lock_guard lock(mutex_);
  return take_if([](const CallSlot&) { return true; });
}

std::vector<std::shared_ptr<CallState>> PendingCalls::waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CallState>> found;
  for (const CallSlot& slot : slots_)
    if (slot.call && !slot.call->done()) found.push_back(slot.call);
  return found;
}

std::size_t PendingCalls::count(const ActorAddress& target) const {
  const std::uint32_t hash = hash_of(target);
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(slots_, [&](const CallSlot& slot) {
    return slot.target_hash == hash && slot.call && !slot.call->done() &&
           slot.call->target->process.id == target.process.id &&
           slot.call->target->actor == target.actor;
  });
}

std::vector<PendingCalls::Taken> PendingCalls::take_expired(TimePoint now, TimePoint& next) {
  const std::lock_guard lock(mutex_);
  auto expired = take_if([&](const CallSlot& slot) { return slot.call->deadline <= now; });
  earliest_ = TimePoint::max();
  for (const CallSlot& slot : slots_)
    if (slot.call && !slot.call->done()) earliest_ = std::min(earliest_, slot.call->deadline);
  next = earliest_;
  return expired;
}

}  // namespace weft::actors
