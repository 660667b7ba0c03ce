#include "actors/launch/driver_interruption.h"

#include <cstdio>

#include "actors/launch/exit_request.h"
#include "core/base/clock.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"

namespace weft::actors {

DriverInterruption::DriverInterruption(EndRequestFilter::Parent parent) : requests_(parent) {}

void DriverInterruption::connect(AppRun& run) {
  run.stop = source_.get_token();
  run.on_phase = [this](const std::string& text, OnInterrupt then) { set_phase(text, then); };
  run.checkpoint_requested = [this] { return checkpoint_asked_.exchange(false); };
}

void DriverInterruption::set_phase(const std::string& text, OnInterrupt then) {
  const std::lock_guard lock(mutex_);
  doing_ = text;
  then_ = then;
}

DriverInterruption::Cancelled DriverInterruption::cancel(bool now) {
  source_.request_stop();
  const std::lock_guard lock(mutex_);
  now = now || then_ == OnInterrupt::kEndsAtOnce;
  const std::string doing = now              ? "it stops immediately"
                            : doing_.empty() ? "it stops after its current work"
                                             : doing_;
  say(stderr, "  weft cancel: {}\n", doing);
  return {doing, now};
}

void DriverInterruption::received(const ReceivedSignal& signal) {
  if (signal.number == kCheckpointSignal) checkpoint_asked_ = true;
  if (signal.asks_to_end()) interrupted(requests_.add(signal, SteadyClock().now()));
}

void DriverInterruption::interrupted(EndRequestFilter::Kind kind) {
  if (kind == EndRequestFilter::Kind::kEcho) return;
  if (kind == EndRequestFilter::Kind::kSecond) end_process(kInterrupted);
  source_.request_stop();
  const std::lock_guard lock(mutex_);
  const bool now = then_ == OnInterrupt::kEndsAtOnce;
  if (!doing_.empty())
    say(stderr, "  interrupted: {}{}\n", doing_, now ? "; no work is lost, stopping now" : "");
  if (now) end_process(kInterrupted);
}

}  // namespace weft::actors
