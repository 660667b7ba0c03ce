#pragma once

namespace weft {

/// From here on a crash of this process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) writes to
/// standard error the signal, what the thread was doing (see CrashContext) and the functions that
/// were under way. Then the process dies by the same signal, within 5 s. A handler of somebody
/// else, a sanitizer's, stays. To be called early in main(), and again by whoever has taken these
/// signals away from a library. Any thread.
void report_crashes();

/// What the calling thread does while it lives, for the report of a crash: "in 'step' of
/// front[data=0,tensor=1]". Contexts nest; the innermost counts. Borrows its texts. Costs two
/// stores.
class CrashContext final {
 public:
  /// `what`: a method, an op; `whose`: an actor, a device.
  CrashContext(const char* what, const char* whose);
  CrashContext(const CrashContext&) = delete;
  CrashContext& operator=(const CrashContext&) = delete;
  ~CrashContext();

 private:
  const char* const what_before_;
  const char* const whose_before_;
};

}  // namespace weft
