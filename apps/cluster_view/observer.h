#pragma once

#include <string>

#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::apps {

/// How a cluster's head is reached. A value.
struct ClusterAccess {
  std::string head = "127.0.0.1:7077";  ///< "HOST:PORT"
  std::string token_file = {};          ///< Empty where find_token() knows it.
  std::string certificate = {};         ///< "sha256:...", see Protection; or empty.
  bool insecure = false;                ///< Without TLS.
};

/// A connection to a head, of somebody who asks and owns nothing. One thread at a time.
class Observer final {
 public:
  /// `name`: "weft status". Throws Error(kUnavailable), saying what to do.
  Observer(const ClusterAccess& access, const std::string& name);

  actors::System& system() { return system_; }
  const actors::ProcessRef& process() const { return head_; }
  actors::ActorRef<actors::Head> head();

  /// So long, or until the connection to the head is lost.
  void wait(Nanoseconds time);
  /// Asks the head, for who follows what happens: where it is away, waits for the next one, a
  /// minute at most, and says so once. `call`: R(ActorRef<Head>).
  template <typename Call>
  auto ask_patiently(const Call& call) {
    for (Absence absence;;) {
      try {
        return call(head());
      } catch (const Error& error) {
        wait_for_head(error, absence);
      }
    }
  }

 private:
  struct Absence {
    bool told = false;
    TimePoint since = SteadyClock().now();
  };
  /// Throws `error` where waiting does not help.
  void wait_for_head(const Error& error, Absence& absence);

  const actors::Address address_;
  Mutex mutex_;
  Condition changed_;
  bool lost_ = false;  // guarded by mutex_
  actors::System system_;
  actors::ProcessRef head_;
};

}  // namespace weft::apps
