#pragma once

#include <string>

#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::apps {

/// Address of a cluster's head and credentials.
struct ClusterAccess {
  std::string head = "127.0.0.1:7077";  ///< "HOST:PORT"
  std::string token_file = {};          ///< File of the token; empty: where find_token() looks.
  std::string certificate = {};         ///< Pinned certificate "sha256:...", see Protection; or
                                        ///< empty.
  bool insecure = false;                ///< True to connect without TLS.
};

/// Connection to a head for queries; owns no meshes. Used by one thread at a time.
class HeadClient final {
 public:
  /// `name` is a name such as "weft status". Throws Error(kUnavailable) with advice.
  HeadClient(const ClusterAccess& access, const std::string& name);

  actors::System& system() { return system_; }
  const actors::ProcessRef& process() const { return head_; }
  actors::ActorRef<actors::Head> head();

  /// Blocks for `time`, or until the connection to the head is lost.
  void wait(Nanoseconds time);
  /// Calls `call`, an R(ActorRef<Head>), with the head. If the head does not respond, reports that
  /// once and retries for up to a minute. For commands that follow events.
  template <typename Call>
  auto call_with_retry(const Call& call) {
    for (HeadOutage absence;;) {
      try {
        return call(head());
      } catch (const Error& error) {
        reconnect_head(error, absence);
      }
    }
  }

 private:
  struct HeadOutage {
    bool told = false;
    TimePoint since = SteadyClock().now();
  };
  /// Waits and reconnects. Throws `error` if waiting cannot help.
  void reconnect_head(const Error& error, HeadOutage& absence);

  const actors::Address address_;
  Mutex mutex_;
  Condition changed_;
  bool lost_ = false;  // guarded by mutex_
  actors::System system_;
  actors::ProcessRef head_;
};

}  // namespace weft::apps
