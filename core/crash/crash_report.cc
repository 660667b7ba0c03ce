#include "core/crash/crash_report.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <backward.hpp>
#include <filesystem>
#include <string>

#include "core/base/platform.h"
#include "core/crash/internal/interrupted.h"

namespace weft {
namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
/// Functions that are printed. A parent looks at the last 20 lines of a log for the cause.
constexpr std::size_t kFrames = 12;
constexpr unsigned kDiesWithin = 5;  // seconds

thread_local const char* what = nullptr;
thread_local const char* whose = nullptr;
volatile sig_atomic_t crash = 0;  // the signal that is being reported

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

void die_at_last(int) { die_by(crash); }

/// Only what a signal handler may call.
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

/// "#3 weft::mesh::Interpreter::execute (interpreter.cc:159)".
void write_stack(void* context, void* address) {
  backward::StackTrace trace;
  trace.load_from(internal::interrupted(context), kFrames, context, address);
  backward::TraceResolver resolver;
  resolver.load_stacktrace(trace);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const backward::ResolvedTrace frame = resolver.resolve(trace[i]);
    std::string function =
        frame.source.function.empty() ? frame.object_function : frame.source.function;
    if (function.size() > 100) function = function.substr(0, 97) + "...";
    std::string line = "  #" + std::to_string(i) + " " + (function.empty() ? "?" : function);
    const std::filesystem::path file =
        frame.source.filename.empty() ? frame.object_filename : frame.source.filename;
    line += " (" + file.filename().string();
    if (!frame.source.filename.empty()) line += ":" + std::to_string(frame.source.line);
    write_text((line + ")\n").c_str());
  }
}

void report(int signal, siginfo_t* info, void* context) {
  // A crash while one is reported, of this thread or another.
  if (crash != 0) die_by(signal);
  crash = signal;
  write_cause(signal);
  // What follows takes memory, whose lock may be held by the code that crashed.
  ::signal(SIGALRM, &die_at_last);
  ::alarm(kDiesWithin);
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
  // Simulated threads share one that is real.
  if (Platform::simulated() != nullptr) return;
  what = new_what;
  whose = new_whose;
}

CrashContext::~CrashContext() {
  what = what_before_;
  whose = whose_before_;
}

}  // namespace weft
