#include "actors/system/internal/cluster_token.h"

#include <algorithm>
#include <chrono>

#include "actors/link/compatibility.h"

namespace weft::actors {

namespace {

/// Time for which a process with the new token accepts the former one, from any process that does
/// not know the new one yet. The head, which strangers can reach, checks who it is.
constexpr auto kFormerFor = std::chrono::seconds(30);

/// Returns a generation by the clock, so that the next head's generation is higher.
std::uint64_t generation_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

void ClusterToken::require() const {
  if (options_.token.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "{} has no cluster token and cannot authenticate; {}", options_.name, kTokenHint);
}

Secret ClusterToken::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

System::TokenReplacement ClusterToken::replace(const Secret& next, Nanoseconds former_for,
                                               const std::vector<ProcessId>& members) {
  System::TokenReplacement replaced{members, {}, {}};
  loop_.run_and_wait([&] {
    for (const auto& link : links_.attached())
      if (std::ranges::find(replaced.members, link->peer_id()) == replaced.members.end())
        replaced.members.push_back(link->peer_id());
    const std::set<ProcessId> may(replaced.members.begin(), replaced.members.end());
    adopt(next, std::max(keyring_.generation() + 1, generation_now()), former_for, may);
    broadcast(&replaced);
  });
  return replaced;
}

void ClusterToken::accept_former(const Secret& former, Nanoseconds within,
                                 const std::vector<ProcessId>& members) {
  loop_.run_and_wait([&] {
    keyring_.add_former(
        {former, clock_.now() + within, std::set<ProcessId>(members.begin(), members.end())});
    keyring_.set_generation(generation_now());
  });
}

void ClusterToken::update_peer(Link& link, const Secret& proven) {
  const bool is_behind = token_id(proven) != token_id(keyring_.current());
  if (is_behind && keyring_.generation() != 0 && link.is_private()) send(link);
}

void ClusterToken::on_message(const TokenMessage& message, ProcessId from) {
  const Secret next(message.token);
  const auto link = links_.find(from);
  if (!link || !link->is_private())
    throw_error(ErrorCode::kFailedPrecondition,
                "the new token was not accepted: the connection that brought it has no TLS; "
                "connect with TLS");
  if (options_.is_head || next.empty() || message.generation <= keyring_.generation() ||
      keyring_.knows(next))
    return;
  adopt(next, message.generation, kFormerFor, std::nullopt);
  options_.log.info("{} has given this process the cluster's new token", link->peer().name);
  broadcast(nullptr);
}

void ClusterToken::adopt(const Secret& next, std::uint64_t generation, Nanoseconds former_for,
                         std::optional<std::set<ProcessId>> members) {
  const TimePoint now = clock_.now();
  keyring_.replace(next, generation, now, now + former_for, std::move(members));
  const std::lock_guard lock(mutex_);
  current_ = next;
}

void ClusterToken::broadcast(System::TokenReplacement* report) {
  for (const auto& link : links_.attached()) {
    const bool may_hear = link->is_private();
    if (may_hear) send(*link);
    if (report != nullptr)
      (may_hear ? report->told : report->not_notified).push_back(link->peer().name);
  }
}

void ClusterToken::send(Link& link) {
  link.send({system_call(SystemMethod::kToken,
                         encode(TokenMessage{keyring_.generation(), keyring_.current().bytes()})),
             nullptr, clock_.now() + options_.default_deadline});
}

}  // namespace weft::actors
