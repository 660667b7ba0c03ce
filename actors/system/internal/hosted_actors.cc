#include "actors/system/internal/hosted_actors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::actors {

const Provider& HostedActors::find_provider(const InterfaceVersion& wanted,
                                            const std::string& process) const {
  const auto provider = std::ranges::find_if(
      providers_, [&](const Provider& each) { return each.interface.name == wanted.name; });
  if (provider == providers_.end())
    throw_error(ErrorCode::kNotFound,
                "{} does not provide actors with interface '{}'; its main must call "
                "system.provide<...>()",
                identity_.name(), wanted.name);
  const InterfaceVersion& own = provider->interface;
  if (own != wanted)
    throw_error(ErrorCode::kIncompatible,
                "interface '{}' has version {} (fingerprint {:016x}) in {} and version {} "
                "(fingerprint {:016x}) in {}; build "
                "both from the same source",
                wanted.name, own.version, own.fingerprint, identity_.name(), wanted.version,
                wanted.fingerprint, process);
  return *provider;
}

ActorId HostedActors::new_id() {
  const std::lock_guard lock(mutex_);
  return ActorId(next_id_++);
}

ActorAddress HostedActors::spawn(Provider provider, ActorId id, std::string label,
                                 MeshPosition place, ProcessRef owner,
                                 std::vector<std::byte> arguments, Constructed constructed,
                                 RestartInfo restart, ActorThread thread) {
  ActorAddress address{identity_.process(), id, std::move(label)};
  std::shared_ptr<ActorHost> host;
  {
    const std::lock_guard lock(mutex_);
    if (closing_)
      throw_error(ErrorCode::kUnavailable, "{} is shutting down and hosts no more actors",
                  identity_.name());
    if (hosts_.contains(id))
      throw_error(ErrorCode::kAlreadyExists, "{} hosts an actor named '{}' already",
                  identity_.name(), address.label);
    ActorHost::Options host_options{address,           std::move(place), std::move(provider),
                                    std::move(owner),  options_.mailbox, std::move(restart),
                                    options_.log,      thread,           shared_threads_,
                                    blocking_threads_, timers_};
    host = std::make_shared<ActorHost>(system_, std::move(host_options));
    hosts_.emplace(id, host);
    exits_.erase(id);
  }
  host->start(std::move(arguments), std::move(constructed), [this, id] {
    // Called on the actor's thread. The loop joins a thread of its own, which is about to end.
    ended(id);
    loop_.post([this, id] { remove(id); });
  });
  return address;
}

std::shared_ptr<ActorHost> HostedActors::find(ActorId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = hosts_.find(id);
  return found == hosts_.end() ? nullptr : found->second;
}

std::shared_ptr<ActorHost> HostedActors::find(const std::string& label,
                                              const std::string& interface) const {
  std::vector<std::shared_ptr<ActorHost>> hosts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, host] : hosts_)
      if (host->self().label == label) hosts.push_back(host);
  }
  const auto found = std::ranges::find_if(hosts, [&](const auto& host) {
    // An earlier actor of that name may be about to be removed.
    return !host->ended() && host->options().provider.interface.name == interface;
  });
  return found == hosts.end() ? nullptr : *found;
}

bool HostedActors::has_exited(ActorId id) const {
  if (const auto host = find(id)) return host->exit_reason().has_value();
  const std::lock_guard lock(mutex_);
  return exits_.contains(id);
}

std::optional<ActorExit> HostedActors::adopt_ended(const std::string& label,
                                                   const std::string& interface, ProcessId owner) {
  const std::lock_guard lock(mutex_);
  const auto newest =
      std::ranges::find_if(exit_order_.rbegin(), exit_order_.rend(), [&](ActorId id) {
        const auto found = exits_.find(id);
        return found != exits_.end() && found->second.exit.actor.label == label &&
               found->second.interface == interface;
      });
  if (newest == exit_order_.rend()) return std::nullopt;
  Ended& ended = exits_.at(*newest);
  ended.owner = owner;
  return ended.exit;
}

std::vector<ProcessId> HostedActors::owners_of_ended() const {
  const std::lock_guard lock(mutex_);
  std::vector<ProcessId> owners;
  owners.reserve(exits_.size());
  for (const auto& [id, ended] : exits_) owners.push_back(ended.owner);
  return owners;
}

std::vector<std::shared_ptr<ActorHost>> HostedActors::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ActorHost>> list;
  list.reserve(hosts_.size());
  for (const auto& [id, host] : hosts_) list.push_back(host);
  return list;
}

bool HostedActors::is_closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

std::optional<Error> HostedActors::deliver(Envelope envelope) {
  const auto host = find(envelope.call.actor);
  if (host) envelope.concurrent = host->runs_concurrently(envelope.call);
  const ActorId actor = envelope.call.actor;
  return refusal_of(host ? host->mailbox()->push(envelope) : Mailbox::Refusal::kClosed, actor,
                    host.get());
}

Error HostedActors::closed_error(ActorId actor, const ActorHost* host) const {
  const std::string label = host != nullptr ? host->self().label : "";
  if (is_closing())
    return Error(ErrorCode::kUnavailable,
                 fmt::format("{} is shutting down; the call was not started", identity_.name()));
  if (host != nullptr)
    if (const auto reason = host->exit_reason())
      return ended_error(label, *reason).from(identity_.name(), label);
  if (host != nullptr && host->is_replaced())
    return replaced_error(label).from(identity_.name(), label);
  {
    const std::lock_guard lock(mutex_);
    if (replaced_.contains(actor)) return replaced_error("the actor").from(identity_.name(), "");
    if (const auto found = exits_.find(actor); found != exits_.end()) return found->second.error;
  }
  return Error(
             ErrorCode::kNotFound,
             fmt::format("{}: {} does not exist (stopped, or never started); the call was not "
                         "started",
                         identity_.name(), host != nullptr ? "actor '" + label + "'" : "the actor"))
      .from(identity_.name(), label);
}

std::optional<Error> HostedActors::refusal_of(Mailbox::Refusal refusal, ActorId actor,
                                              const ActorHost* host) const {
  const auto error = [&](ErrorCode code, const std::string& text) {
    return Error(code, text).from(identity_.name(), host != nullptr ? host->self().label : "");
  };
  switch (refusal) {
    case Mailbox::Refusal::kNone: return std::nullopt;
    case Mailbox::Refusal::kClosed: return closed_error(actor, host);
    case Mailbox::Refusal::kOverrun:
      return error(
          ErrorCode::kResourceExhausted,
          fmt::format("the mailbox of {} is full; the call was not started", host->self().label));
    case Mailbox::Refusal::kUrgentFull:
      return error(ErrorCode::kResourceExhausted,
                   fmt::format("{} urgent calls wait for {} already; the call was not started",
                               Mailbox::kMaxUrgent, host->self().label));
  }
  return std::nullopt;
}

std::optional<Credit> HostedActors::credit_of(const ReturnRoute* route, ActorId actor) const {
  const auto host = find(actor);
  return host ? host->mailbox()->request_report(route) : std::nullopt;
}

void HostedActors::cancel(const ReturnRoute* route, std::uint64_t call_id) {
  for (const auto& host : all()) host->cancel(route, call_id);
}

void HostedActors::remove_sender(const ReturnRoute* route) {
  for (const auto& host : all()) {
    host->mailbox()->remove_sender(route);
    host->cancel_generators_of(route);
  }
}

void HostedActors::on_owner_lost(ProcessId owner, DisconnectCause how) {
  for (const auto& host : all()) {
    if (host->owner() != owner) continue;
    if (options_.keep_actors_without_owner && how != DisconnectCause::kSaidGoodbye)
      host->cancel_calls_of(owner);
    else host->stop();
  }
}

void HostedActors::stop() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  const auto hosts = all();
  for (const auto& host : hosts) host->stop();
  for (const auto& host : hosts)
    WEFT_CHECK(host->wait_ended(ActorHost::kStopGrace + std::chrono::seconds(5)),
               "a handler of {} did not end within {} s after a stop request; it must check "
               "context.stop_token()",
               host->self().label, std::chrono::seconds(ActorHost::kStopGrace).count());
}

void HostedActors::join() {
  blocking_threads_.stop();
  shared_threads_.stop();
  // Without the lock, which their last callbacks need.
  for (const auto& host : all()) host->join();
  const std::lock_guard lock(mutex_);
  hosts_.clear();
}

void HostedActors::ended(ActorId id) {
  const auto host = find(id);
  if (host && host->is_replaced()) {
    const std::lock_guard lock(mutex_);
    replaced_.insert(id);
    // Ids grow: the first one is the oldest.
    if (replaced_.size() > kMaxReplaced) replaced_.erase(replaced_.begin());
    return;
  }
  const auto reason = host ? host->exit_reason() : std::nullopt;
  if (!reason) return;
  {
    const std::lock_guard lock(mutex_);
    const std::string& label = host->self().label;
    exits_.insert_or_assign(id, Ended{{host->self(), *reason},
                                      host->options().provider.interface.name,
                                      host->owner(),
                                      ended_error(label, *reason).from(identity_.name(), label)});
    exit_order_.push_back(id);
    if (exit_order_.size() > kMaxExits) {
      exits_.erase(exit_order_.front());
      exit_order_.pop_front();
    }
  }
  on_exit_(*host, *reason);
}

void HostedActors::remove(ActorId id) {
  std::shared_ptr<ActorHost> host;
  {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(id);
    if (found == hosts_.end()) return;
    host = std::move(found->second);
    hosts_.erase(found);
  }
  host->join();
}

}  // namespace weft::actors
