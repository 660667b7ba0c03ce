#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/call/combine.h"
#include "actors/call/pending.h"
#include "actors/system/internal/branches.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/relocations.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Calls of this process to all actors of a mesh, from kMinTreeRanks ranks on: they travel a tree
/// of the mesh's processes.
///
/// Each call is one of OutgoingCalls, with its own deadline and result. A call goes directly if its
/// actor is in this process, is being restarted or has no room (Route::reserve_relayed()), or if
/// the tree does not reach its process. Any thread.
class TreeCalls final : public TreeCarrier {
 public:
  /// Bytes of arguments under way in trees of this process, at most, counted once per call. More
  /// goes directly.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{128} << 20;

  TreeCalls(EventLoop& loop, const ProcessIdentity& identity, PeerLinks& links,
            Relocations& relocations, OutgoingCalls& calls, Branches& branches)
      : loop_(loop),
        identity_(identity),
        links_(links),
        relocations_(relocations),
        calls_(calls),
        branches_(branches) {}

  using Targets = std::vector<std::shared_ptr<const ActorAddress>>;
  /// Kind of results that the caller wants.
  struct Wanted {
    bool values = true;                     ///< False: errors only.
    std::optional<ReduceOperation> reduce;  ///< Relays may combine results.
  };
  /// Calls all targets. Throws Error(kInvalidArgument) if the arguments are too large.
  std::vector<std::shared_ptr<CallState>> call(const Targets& targets, const System::Method& method,
                                               Nanoseconds within, std::vector<std::byte> arguments,
                                               Wanted wanted);

  bool cancel(std::uint64_t id) override;
  void forget(std::uint64_t id) override;

 private:
  class Tree;
  friend class Tree;
  using Arguments = std::shared_ptr<const std::vector<std::byte>>;
  /// Adds a call to a tree. Returns false if it must go directly.
  bool add(Tree& tree, const std::shared_ptr<CallState>& state, std::size_t rank, bool repeatable,
           const Call& message, const Arguments& arguments);
  std::shared_ptr<Tree> find(std::uint64_t id) const;

  EventLoop& loop_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  Relocations& relocations_;
  OutgoingCalls& calls_;
  Branches& branches_;
  // Shared with the trees, which branches may hold longer.
  const std::shared_ptr<std::atomic<std::uint64_t>> bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  mutable Mutex mutex_;                                             // guards trees_
  std::unordered_map<std::uint64_t, std::shared_ptr<Tree>> trees_;  // by call
};

}  // namespace weft::actors
