#pragma once

#include <functional>
#include <string>
#include <utility>

#include "actors/call/task.h"
#include "actors/head/head.h"
#include "actors/system/directory.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Directory of a process, which asks the head. Asks again while the head is away.
class HeadDirectory final : public Directory {
 public:
  /// Returns the head as last known. Throws Error if it is not known at the moment.
  using FindHead = std::function<task<ProcessRef>()>;
  HeadDirectory(Context& context, FindHead find_head)
      : context_(context), find_head_(std::move(find_head)) {}

  task<NamedActors> find(std::string name) override;
  task<NamedActors> find_now(std::string name) override;
  task<ActorAddress> locate(ActorAddress lost) override;

 private:
  /// Time that is left of the running call, but for that of the reply.
  Nanoseconds time_left() const;
  /// Calls `Method` of the head with `request`, until it answers; with kOnce, at most once. Sets
  /// `within_ns` of the request.
  enum class Wait { kUntilDeadline, kOnce };
  template <auto Method, typename Request>
  task<ResultOf<Method>> ask(Request request, Wait wait = Wait::kUntilDeadline);

  Context& context_;
  const FindHead find_head_;
};

/// Hosts the directory of a process, under kDirectoryName.
ActorRef<Directory> host_directory(System& system, HeadDirectory::FindHead find_head);

}  // namespace weft::actors
