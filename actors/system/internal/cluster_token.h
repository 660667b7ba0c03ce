#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/link/token_keyring.h"
#include "actors/net/event_loop.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/system_methods.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Token of the cluster in this process: the one that it proves, the former ones that it accepts,
/// and the way of a new one from peer to peer. Loop's thread, unless a member's comment says
/// otherwise.
class ClusterToken final {
 public:
  ClusterToken(const SystemOptions& options, EventLoop& loop, PeerLinks& links)
      : options_(options),
        loop_(loop),
        links_(links),
        keyring_(options.token),
        current_(options.token) {}

  /// Throws Error(kFailedPrecondition) if this process has no token. Any thread.
  void require() const;
  /// Returns the token that this process proves now. Any thread.
  Secret current() const;
  /// See System::replace_token(). Any thread but the loop's, as the next one.
  System::TokenReplacement replace(const Secret& next, Nanoseconds former_for,
                                   const std::vector<ProcessId>& members);
  /// See System::accept_former_token().
  void accept_former(const Secret& former, Nanoseconds within,
                     const std::vector<ProcessId>& members);

  /// Returns the current token and the former ones that are still valid.
  std::vector<Secret> usable() const { return keyring_.usable(clock_.now()); }
  /// Returns true if `process`, which has proven `token`, may connect.
  bool admits(const Secret& token, ProcessId process) const {
    return keyring_.admits(token_id(token), process, clock_.now());
  }
  /// Sends the current token to a peer that has proven a former one: it does not know the new one,
  /// or this process does not. Without effect if others could read it on the way.
  void update_peer(Link& link, const Secret& proven);
  /// Adopts a token that a peer has sent, if it is newer, and passes it on.
  void on_message(const TokenMessage& message, ProcessId from);

 private:
  /// Proves `next` from now on; accepts the former token for `former_for`, from `members`.
  void adopt(const Secret& next, std::uint64_t generation, Nanoseconds former_for,
             std::optional<std::set<ProcessId>> members);
  /// Sends the token to peers over private links. Adds the names of all peers to `report`, if any.
  void broadcast(System::TokenReplacement* report);
  void send(Link& link);

  const SystemOptions& options_;
  EventLoop& loop_;
  PeerLinks& links_;
  const SteadyClock clock_;
  TokenKeyring keyring_;
  mutable Mutex mutex_;  // guards current_
  Secret current_;
};

}  // namespace weft::actors
