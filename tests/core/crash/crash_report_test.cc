#include "core/crash/crash_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Crash {
  int signal = 0;  ///< Signal that ended the child.
  std::string said;
};

Crash crash_of(const std::function<void()>& work) {
  std::fflush(nullptr);
  std::FILE* const said = std::tmpfile();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(said), STDERR_FILENO);
    report_crashes();
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::rewind(said);
  std::string text(20000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), said));
  std::fclose(said);
  return {WIFSIGNALED(status) ? WTERMSIG(status) : 0, text};
}

bool a_sanitizer_has_the_signal() {
  struct sigaction before = {};
  ::sigaction(SIGSEGV, nullptr, &before);
  return (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL;
}

__attribute__((noinline)) void writes_to_nowhere() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

TEST(CrashReport, ACrashNamesWhatWasDoneWithItsStackAndDiesByItsSignal) {
  if (a_sanitizer_has_the_signal()) GTEST_SKIP() << "a sanitizer reports crashes";
  const Crash crash = crash_of([] {
    const CrashContext inside("greet", "greeters[row=1]");
    { const CrashContext deeper("step", "another"); }
    writes_to_nowhere();
  });
  EXPECT_EQ(crash.signal, SIGSEGV);
  EXPECT_THAT(crash.said,
              AllOf(HasSubstr("crash: SIGSEGV in 'greet' of greeters[row=1]\n"),
                    HasSubstr("writes_to_nowhere"), HasSubstr("crash_report_test.cc:")));
}

TEST(CrashReport, AnAbortIsReportedToo) {
  if (a_sanitizer_has_the_signal()) GTEST_SKIP() << "a sanitizer reports crashes";
  const Crash crash = crash_of([] { ::abort(); });
  EXPECT_EQ(crash.signal, SIGABRT);
  EXPECT_THAT(crash.said, AllOf(HasSubstr("crash: SIGABRT\n"), Not(HasSubstr(" of "))));
}

TEST(CrashReport, AnotherSignalHandlerStays) {
  const Crash crash = crash_of([] {
    ::signal(SIGSEGV, [](int) { ::_exit(7); });
    report_crashes();
    writes_to_nowhere();
  });
  EXPECT_EQ(crash.signal, 0);
}

}  // namespace
}  // namespace weft
