#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/link/link.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Links of this process to its peers, by process, and the peers that are dead for good.
///
/// Only the loop's thread removes links. Any thread, unless a member's comment says otherwise.
class PeerLinks final {
 public:
  /// Called after a link was dropped. Loop's thread.
  using Dropped = std::function<void(Link& link, const Error& reason, DisconnectCause how)>;
  /// `events` receives the events of all links. `beat_interval` is the time between two heartbeats.
  PeerLinks(LinkEvents& events, Nanoseconds beat_interval, Dropped dropped)
      : events_(events), beat_interval_(beat_interval), dropped_(std::move(dropped)) {}

  /// Returns the link to a process; null if there is none.
  std::shared_ptr<Link> find(ProcessId process) const;
  /// Returns true if this is still the link to its peer.
  bool contains(const std::shared_ptr<Link>& link) const { return find(link->peer_id()) == link; }
  bool is_attached(ProcessId process) const;
  std::vector<std::shared_ptr<Link>> all() const;
  /// Returns the links that have a connection.
  std::vector<std::shared_ptr<Link>> attached() const;

  /// Returns the link to a process; adds one without a connection if there is none. Throws the
  /// reason of take_all() after it.
  std::shared_ptr<Link> find_or_add(const ProcessRef& process);
  /// Like find_or_add(), for a caller that dials the link if Link::claim_dial() says so. Throws the
  /// reason of the process's death, or Error(kUnavailable) if the process does not listen.
  std::shared_ptr<Link> find_or_add_reachable(const ProcessRef& process);

  /// Returns a number for a stream of calls, larger than all earlier ones. See CallOrder.
  std::uint64_t next_stream() { return ++last_stream_; }

  /// Wakes wait_attached(), after a link was attached.
  void notify_attached();
  /// Blocks until the link to a process is attached, at most until `deadline`. Returns null then.
  std::shared_ptr<Link> wait_attached(ProcessId process, TimePoint deadline) const;

  /// Marks a process as dead for good. The first reason stays, unless this is `better` evidence.
  void mark_dead(ProcessId process, const Error& reason, bool better);
  /// Returns the reason of a process's death, if it is dead.
  std::optional<Error> death_of(ProcessId process) const;

  /// Sets the function that cancels the dial to a process. Loop's thread, as the next four.
  void begin_dial(ProcessId process, std::function<void()> cancel);
  /// Forgets the dial to a process, which has ended.
  void end_dial(ProcessId process) { dials_.erase(process); }
  void cancel_dial(ProcessId process);
  /// Removes a link, cancels its dial, and closes its connection. Without effect for a link that
  /// was dropped before.
  void drop(const std::shared_ptr<Link>& link, const Error& reason,
            DisconnectCause how = DisconnectCause::kEnded);
  /// Cancels all dials. Removes and returns all links, which the caller closes. From now on none is
  /// added, for the reason `why`: calls that come back from the links must not dial.
  std::vector<std::shared_ptr<Link>> take_all(const Error& why);

 private:
  /// Returns a new link, whose stream is larger than those of earlier ones. Throws the reason of
  /// take_all() after it. The lock is held.
  std::shared_ptr<Link> make_link(const ProcessRef& process);

  LinkEvents& events_;
  const Nanoseconds beat_interval_;
  const Dropped dropped_;
  std::atomic<std::uint64_t> last_stream_{0};

  mutable Mutex mutex_;  // guards the members below
  mutable Condition attached_;
  std::unordered_map<ProcessId, std::shared_ptr<Link>> links_;  // shared with pending replies
  std::unordered_map<ProcessId, Error> dead_;  // reasons of the last kMaxDead processes that died
  std::deque<ProcessId> dead_order_;           // keys of dead_, oldest first
  std::optional<Error> ended_;                 // set by take_all()

  // Loop's thread only.
  std::unordered_map<ProcessId, std::function<void()>> dials_;  // cancel a dial
};

}  // namespace weft::actors
