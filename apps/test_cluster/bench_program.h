#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "actors/launch/app_main.h"

namespace weft::apps {

/// The main() of a benchmark that runs on a TestCluster: one executable, which serves the roles of
/// the processes that it starts and otherwise measures.
struct BenchProgram {
  /// "weft bench reshard", before what goes wrong.
  std::string name;
  std::function<void(actors::AppMain&)> provide;      ///< The actors of its device processes.
  std::function<int(int argc, char** argv)> measure;  ///< Reads the command line. May throw.
};
/// Exit statuses: measure's; 1 failed, 2 wrong usage.
int run_bench_program(int argc, char** argv, const BenchProgram& program);

/// Runs `work`, whose token SIGINT and SIGTERM set; a second wish ends the process at once. 130
/// when it threw after a signal.
int run_interruptible(const std::function<int(const std::stop_token&)>& work);

/// weft-hosts beside this program; empty, with the reason on `terminal`, where this machine can
/// have no test hosts or `loopback` was asked for. `consequence` is what that means: "the links are
/// not limited, so ratios say little".
std::filesystem::path find_hosts_tool(bool loopback, const std::string& consequence,
                                      std::FILE* terminal);

/// Throws Error(kUnavailable) if it cannot be written.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace weft::apps
