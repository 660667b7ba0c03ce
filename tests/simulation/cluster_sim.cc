// Runs real head, agent, device and driver code in a simulated world. A seed determines which
// processes die or stop and which network links fail. --trace prints the events of a seed.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "actors/launch/roles.h"
#include "tests/simulation/scenario.h"

namespace weft::simulation {
namespace {

/// Time limit of a seed in seconds. A seed takes some hundredths of a second, unless it loops
/// endlessly.
constexpr unsigned kLongestSeconds = 60;

/// Redirects stdout and stderr to a file. The file is printed after a violation only.
void say_into(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  ::dup2(fd, STDOUT_FILENO);
  ::dup2(fd, STDERR_FILENO);
  ::close(fd);
}

void print_file(const std::filesystem::path& file) {
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) fmt::print("  {}\n", line);
}

/// Runs a scenario in a child process, because a world leaks the memory of its killed processes.
/// Returns true if there are no violations.
bool run_apart(const Scenario::Options& options, std::uint64_t& digest) {
  std::fflush(nullptr);
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kLongestSeconds);
    const int out = ::dup(STDOUT_FILENO);
    if (!options.trace) say_into(options.scratch / "said");
    const Scenario::Result result = Scenario(options).run();
    std::fflush(stdout);
    ::dup2(out, STDOUT_FILENO);
    if (!result.violations.empty()) print_file(options.scratch / "said");
    for (const std::string& violation : result.violations)
      fmt::print("seed {}: VIOLATION: {}\n", options.seed, violation);
    if (options.summary || options.trace)
      fmt::print("seed {}: {} ({:.1f} s, {} switches, digest {:016x})\n", options.seed,
                 result.outcome, result.seconds, result.switches, result.digest);
    std::fflush(nullptr);
    [[maybe_unused]] const auto written = ::write(ends[1], &result.digest, sizeof result.digest);
    ::_exit(result.violations.empty() ? 0 : 1);
  }
  ::close(ends[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  [[maybe_unused]] const auto got = ::read(ends[0], &digest, sizeof digest);
  ::close(ends[0]);
  if (!WIFEXITED(status)) {
    print_file(options.scratch / "said");
    fmt::print("seed {}: VIOLATION: the simulation itself died of signal {}\n", options.seed,
               WTERMSIG(status));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Checks that the scenario's rules find each injected bug.
int find_planted(Scenario::Options options, std::uint64_t first) {
  constexpr int kFoundWithin = 300;
  int missed = 0;
  for (const auto& [plant, name] : {std::pair(Plant::kLosesUpdate, "an update is lost"),
                                    std::pair(Plant::kRunsStepTwice, "a step runs twice"),
                                    std::pair(Plant::kLosesWakeup, "a call never ends"),
                                    std::pair(Plant::kPublishesOldActors, "a name is stale"),
                                    std::pair(Plant::kForgetsState, "the head forgets"),
                                    std::pair(Plant::kFreesDevices, "a device has two owners"),
                                    std::pair(Plant::kTellsNoCause, "no cause is told"),
                                    std::pair(Plant::kKeepsOldState, "nobody goes back"),
                                    std::pair(Plant::kRunsCallTwice, "a call runs twice"),
                                    std::pair(Plant::kLosesCall, "a call does not run"),
                                    std::pair(Plant::kFormerActorServes, "a former actor serves"),
                                    std::pair(Plant::kChildrenLiveOn, "children live on"),
                                    std::pair(Plant::kFreesUnderReaders, "a reader's object ends"),
                                    std::pair(Plant::kReleasesTwice, "a seat is given twice")}) {
    options.plant = plant;
    int seeds = 0;
    for (bool found = false; !found && seeds < kFoundWithin; ++seeds) {
      options.seed = first + seeds;
      std::uint64_t digest = 0;
      std::filesystem::create_directories(options.scratch);
      found = !run_apart(options, digest);
      std::filesystem::remove_all(options.scratch);
      if (!found && seeds + 1 == kFoundWithin) ++missed;
    }
    fmt::print("planted: {}: {} seeds\n", name, seeds);
  }
  return missed == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  Scenario::Options options;
  std::uint64_t first = 1;
  int seeds = 1;
  bool twice = false;
  bool planted = false;
  CLI::App app("A cluster in a simulated world");
  app.add_option("--seed", first, "The first one")->capture_default_str();
  app.add_option("--seeds", seeds, "How many")->capture_default_str();
  app.add_flag("--trace", options.trace, "Print what happens");
  app.add_flag("--summary", options.summary, "Print a line for each seed");
  app.add_flag("--twice", twice, "Run each twice: all has to happen again");
  app.add_flag("--calm", options.calm, "Nothing fails");
  app.add_flag("--planted", planted, "Put mistakes in, and find them");
  CLI11_PARSE(app, argc, argv);
  const std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / fmt::format("cluster_sim.{}", ::getpid());
  ::setenv("XDG_STATE_HOME", (scratch / "state").c_str(), 1);
  ::setenv("TMPDIR", scratch.c_str(), 1);
  options.scratch = scratch;
  if (planted) return find_planted(options, first);
  int failed = 0;
  for (int i = 0; i < seeds; ++i) {
    options.seed = first + i;
    std::uint64_t digests[2] = {0, 0};
    bool good = true;
    for (int turn = 0; turn < (twice ? 2 : 1); ++turn) {
      std::filesystem::create_directories(scratch);
      good = run_apart(options, digests[turn]) && good;
      std::filesystem::remove_all(scratch);
    }
    if (twice && digests[0] != digests[1]) {
      fmt::print("seed {}: VIOLATION: it is not the same twice: digests {:016x}, {:016x}\n",
                 options.seed, digests[0], digests[1]);
      good = false;
    }
    if (!good) ++failed;
  }
  fmt::print("{} seeds, {} with violations\n", seeds, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::simulation

int main(int argc, char** argv) {
  try {
    return weft::simulation::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
