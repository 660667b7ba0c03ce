#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "actors/launch/app_main.h"

namespace weft::apps {

/// Description of a benchmark on a TestCluster. Its single executable also runs as head, agent and
/// device process.
struct BenchProgram {
  /// Prefix of error messages, such as "weft bench reshard".
  std::string name;
  std::function<void(actors::AppMain&)> register_actors;  ///< Registers the actors of the device
                                                          ///< processes.
  std::function<int(int argc, char** argv)> measure;  ///< Reads the command line and measures. May
                                                      ///< throw.
};
/// Runs the benchmark or, if the command line names one, a process role. Returns the status of
/// `measure`; 1 after an error, 2 after wrong usage.
int run_bench_program(int argc, char** argv, const BenchProgram& program);

/// Runs `work` with a token that SIGINT and SIGTERM set. A second signal ends the process at once.
/// Returns 130 if `work` throws an Error after a signal.
int run_until_signal(const std::function<int(const std::stop_token&)>& work);

/// Returns the path of weft-hosts beside this program. Returns an empty path if `loopback` is true
/// or this machine cannot have test hosts, and writes the reason and the `consequence` to
/// `terminal`, such as "the links are not limited, so ratios say little".
std::filesystem::path find_hosts_tool(bool loopback, const std::string& consequence,
                                      std::FILE* terminal);

}  // namespace weft::apps
