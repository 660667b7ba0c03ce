// Tokens of the System: how a cluster's next token reaches its processes.
#include <algorithm>

#include "actors/system/internal/runtime.h"

namespace weft::actors {

namespace {
/// Time for which a process with the new token accepts the former one, from any process that does
/// not know the new one yet. The head, which strangers can reach, checks who it is.
constexpr auto kFormerFor = std::chrono::seconds(30);
}  // namespace

void System::Impl::send_token(const Link& link) {
  Call call;
  call.urgent = true;
  call.method = static_cast<std::uint32_t>(SystemMethod::kToken);
  call.arguments = encode(TokenMessage{tokens.generation(), tokens.current().bytes()});
  tell(std::make_shared<const ActorAddress>(ActorAddress{link.peer(), ActorId(0), "its system"}),
       std::move(call));
}

void System::Impl::broadcast_token(System::TokenReplacement* report) {
  std::vector<std::shared_ptr<Link>> all;
  {
    const std::lock_guard lock(routes_mutex);
    for (const auto& [id, link] : links)
      if (link->attached()) all.push_back(link);
  }
  for (const auto& link : all) {
    const bool may_hear = link->is_private();
    if (may_hear) send_token(*link);
    if (report != nullptr)
      (may_hear ? report->told : report->not_notified).push_back(link->peer().name);
  }
}

void System::Impl::adopt_token(const Secret& next, std::uint64_t generation, Nanoseconds former_for,
                               std::optional<std::set<ProcessId>> members) {
  const TimePoint now = clock.now();
  tokens.replace(next, generation, now, now + former_for, std::move(members));
  const std::lock_guard lock(token_mutex);
  current_token = next;
}

void System::Impl::on_token(const TokenMessage& message, ProcessId from) {
  const Secret next(message.token);
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(routes_mutex);
    if (const auto found = links.find(from); found != links.end()) link = found->second;
  }
  if (!link || !link->is_private())
    throw_error(ErrorCode::kFailedPrecondition,
                "a token is not taken over a connection without TLS");
  if (options.is_head || next.empty() || message.generation <= tokens.generation() ||
      tokens.knows(next))
    return;
  adopt_token(next, message.generation, kFormerFor, std::nullopt);
  options.log.info("{} has given this process the cluster's new token", link->peer().name);
  broadcast_token(nullptr);
}

Secret System::token() const {
  const std::lock_guard lock(impl_->token_mutex);
  return impl_->current_token;
}

System::TokenReplacement System::replace_token(const Secret& next, Nanoseconds former_for,
                                               const std::vector<ProcessId>& members) {
  impl_->require_token();
  System::TokenReplacement replaced{members, {}, {}};
  impl_->loop.run_and_wait([&] {
    {
      const std::lock_guard lock(impl_->routes_mutex);
      for (const auto& [id, link] : impl_->links)
        if (link->attached() && std::ranges::find(replaced.members, id) == replaced.members.end())
          replaced.members.push_back(id);
    }
    const std::set<ProcessId> may(replaced.members.begin(), replaced.members.end());
    // By the clock, so that the next head's generation is higher.
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::uint64_t generation =
        std::max<std::uint64_t>(impl_->tokens.generation() + 1,
                                std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
    impl_->adopt_token(next, generation, former_for, may);
    impl_->broadcast_token(&replaced);
  });
  return replaced;
}

void System::accept_former_token(const Secret& former, Nanoseconds within,
                                 const std::vector<ProcessId>& members) {
  impl_->loop.run_and_wait([&] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    impl_->tokens.add_former(
        {former, impl_->clock.now() + within, std::set<ProcessId>(members.begin(), members.end())});
    impl_->tokens.set_generation(
        std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  });
}

}  // namespace weft::actors
