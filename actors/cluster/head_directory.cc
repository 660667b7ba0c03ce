#include "actors/cluster/head_directory.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

namespace weft::actors {
namespace {

/// Pause before the head is asked again.
constexpr Nanoseconds kAskAgainAfter = std::chrono::milliseconds(100);
/// Longest time of one question.
constexpr Nanoseconds kLongestWait = std::chrono::hours(1);
/// Time for the reply of the head, and of this directory, before the deadline of a call.
constexpr Nanoseconds kReplyWithin = std::chrono::milliseconds(100);

/// Returns whether another try can succeed: the head has not handled the call. A head that ends
/// cancels its calls; one with too many queued calls refuses more.
bool may_pass(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kPeerDied ||
         error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kResourceExhausted;
}

}  // namespace

Nanoseconds HeadDirectory::time_left() const {
  if (context_.deadline() == TimePoint::max()) return kLongestWait;
  const Nanoseconds left = context_.deadline() - SteadyClock().now();
  return std::max<Nanoseconds>(left - std::min<Nanoseconds>(kReplyWithin, left / 4),
                               Nanoseconds::zero());
}

template <auto Method, typename Request>
task<ResultOf<Method>> HeadDirectory::ask(Request request, Wait wait) {
  while (true) {
    std::optional<Error> problem;
    try {
      auto finding = find_head_();
      const ProcessRef process = co_await finding;
      const ActorRef<Head> head = context_.system().named<Head>(process, "head");
      if (wait == Wait::kUntilDeadline) request.within_ns = time_left().count();
      auto answer = head.within(time_left() + kReplyWithin).template call<Method>(request);
      co_return co_await answer;
    } catch (const Error& error) {
      problem = error;
    }
    const bool is_over = wait == Wait::kOnce || context_.stop_token().stop_requested() ||
                         time_left() <= kAskAgainAfter;
    if (is_over || !may_pass(*problem)) throw Error(*problem);
    co_await context_.sleep(kAskAgainAfter);
  }
}

task<NamedActors> HeadDirectory::find(std::string name) {
  return ask<&Head::find_actors>(FindActors{std::move(name)});
}

task<NamedActors> HeadDirectory::find_now(std::string name) {
  return ask<&Head::find_actors>(FindActors{std::move(name)}, Wait::kOnce);
}

task<ActorAddress> HeadDirectory::locate(ActorAddress lost) {
  return ask<&Head::locate_actor>(LocateActor{std::move(lost)});
}

ActorRef<Directory> host_directory(System& system, HeadDirectory::FindHead find_head) {
  return system.host_with<Directory>(
      kDirectoryName,
      [find_head = std::move(find_head)](Context& context) -> std::unique_ptr<Directory> {
        return std::make_unique<HeadDirectory>(context, find_head);
      });
}

}  // namespace weft::actors
