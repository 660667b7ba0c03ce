#pragma once

#include <atomic>
#include <mutex>
#include <stop_token>
#include <string>

#include "actors/launch/app_main.h"
#include "actors/supervision/signal_handler.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Reaction of a driver to signals. The first SIGINT, SIGTERM or SIGHUP requests the end and prints
/// what happens. A second request, or the first where nothing would be lost, ends the process at
/// once (children get the parent-death signal). SIGUSR1 requests a checkpoint. Any thread.
class DriverInterruption final {
 public:
  explicit DriverInterruption(EndRequestFilter::Parent parent);

  /// Gives a run its stop token and the functions by which it talks to this object.
  void connect(AppRun& run);
  bool requested() const { return source_.stop_requested(); }
  /// Sets the driver's current work, and the effect of a signal on it.
  void set_phase(const std::string& text, OnInterrupt then);
  /// Result of cancel(): what the driver does until its end, and whether the caller must end the
  /// process after passing that on.
  struct Cancelled {
    std::string doing;
    bool ends_at_once = false;
  };
  /// Requests the end like the first signal, or, with `now`, like the second.
  Cancelled cancel(bool now);

 private:
  void received(const ReceivedSignal& signal);
  void interrupted(EndRequestFilter::Kind kind);

  Mutex mutex_;
  std::string doing_ = "joining the cluster";    // guarded by mutex_
  OnInterrupt then_ = OnInterrupt::kEndsAtOnce;  // guarded by mutex_
  std::stop_source source_;
  std::atomic<bool> checkpoint_asked_ = false;
  EndRequestFilter requests_;  // signals' thread only
  const SignalHandler signals_{[this](const ReceivedSignal& signal) { received(signal); }};
};

}  // namespace weft::actors
