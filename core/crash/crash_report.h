#pragma once

namespace weft {

/// Installs handlers for crash signals (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT). On a crash the
/// handler writes the signal, the thread's CrashContext and the stack to standard error. The
/// process then dies by the same signal, within 5 s. Existing handlers, such as a sanitizer's, are
/// kept. Call early in main(), and again after resetting signals that a library had taken.
/// Thread-safe.
void report_crashes();

/// Scoped description of the calling thread's work for crash reports: "in 'step' of
/// front[data=0,tensor=1]". Contexts nest; the innermost is reported. Borrows the texts. Costs two
/// stores.
class CrashContext final {
 public:
  /// `what` is a method or an op; `whose` is an actor or a device.
  CrashContext(const char* what, const char* whose);
  CrashContext(const CrashContext&) = delete;
  CrashContext& operator=(const CrashContext&) = delete;
  ~CrashContext();

 private:
  const char* const what_before_;
  const char* const whose_before_;
};

}  // namespace weft
