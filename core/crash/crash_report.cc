#include "core/crash/crash_report.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <exception>

#include "core/base/platform.h"
#include "core/base/plugin.h"
#include "core/crash/stack_library.h"

namespace weft {
namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr unsigned kReportTimeoutSeconds = 5;  // seconds until a process that crashed ends

thread_local const char* what = nullptr;
thread_local const char* whose = nullptr;
volatile sig_atomic_t crash = 0;  // signal being reported, 0 if none

void write_text(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, ::strlen(text));
  (void)ignored;
}

[[noreturn]] void die_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t unblocked;
  ::sigemptyset(&unblocked);
  ::sigaddset(&unblocked, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
  ::kill(::getpid(), signal);
  ::raise(signal);
  ::_exit(128 + signal);
}

void end_on_report_timeout(int) { die_by(crash); }

/// Writes the signal and the context. Calls async-signal-safe functions only.
void write_cause(int signal) {
  const char* name = ::sigabbrev_np(signal);
  write_text("crash: SIG");
  write_text(name == nullptr ? "?" : name);
  if (what != nullptr) {
    write_text(" in '");
    write_text(what);
    write_text("' of ");
    write_text(whose);
  }
  write_text("\n");
}

void write_stack(void* context, void* address) {
  try {
    if (const auto path = find_plugin(kStackLibrary, plugin_folders()))
      return reinterpret_cast<WriteStack>(plugin_function(*path, kWriteStack))(context, address);
    write_text("  no stack: ");
    write_text(kStackLibrary);
    write_text(" is not in lib/ beside the program's bin/\n");
  } catch (const std::exception& error) {
    write_text("  no stack: ");
    write_text(error.what());
    write_text("\n");
  }
}

void report(int signal, siginfo_t* info, void* context) {
  // A second crash during the report, in this thread or another.
  if (crash != 0) die_by(signal);
  crash = signal;
  write_cause(signal);
  // write_stack() allocates memory, and the code that crashed may hold the allocator's lock.
  ::signal(SIGALRM, &end_on_report_timeout);
  ::alarm(kReportTimeoutSeconds);
  write_stack(context, info->si_addr);
  die_by(signal);
}

}  // namespace

void report_crashes() {
  for (const int signal : kCrashes) {
    struct sigaction before = {};
    if (::sigaction(signal, nullptr, &before) != 0) continue;
    const bool is_taken = (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL;
    if (is_taken) continue;
    struct sigaction action = {};
    action.sa_sigaction = &report;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

CrashContext::CrashContext(const char* new_what, const char* new_whose)
    : what_before_(what), whose_before_(whose) {
  // Simulated threads share one real thread.
  if (Platform::simulated() != nullptr) return;
  what = new_what;
  whose = new_whose;
}

CrashContext::~CrashContext() {
  what = what_before_;
  whose = whose_before_;
}

}  // namespace weft
