#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch/app_main.h"
#include "apps/bench/test_cluster.h"
#include "core/base/non_blocking_output.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weft::apps {

/// Output of a benchmark that runs: tables on the terminal, progress on standard error, and one
/// JSON document, in results.json and where --json says. Not thread-safe.
class BenchOutput final {
 public:
  /// `json` is the destination of --json: a path, "-" for standard output, or empty. Creates
  /// `folder`.
  BenchOutput(std::filesystem::path folder, std::string json);

  const std::filesystem::path& folder() const { return folder_; }
  /// Returns the stream of tables. With --json -, standard output carries the JSON document alone,
  /// and tables go to standard error.
  std::FILE* terminal() const { return json_ == "-" ? stderr : stdout; }
  /// Prints a text to the terminal.
  void print(std::string_view text) const;
  /// Prints a line of progress to standard error.
  static void report_progress(const std::string& line);
  /// Writes results.json. Call it after each case, so that its results survive a later failure.
  void save(const std::string& json) const;
  /// Writes results.json, and the document where --json says.
  void publish(const std::string& json) const;

 private:
  const std::filesystem::path folder_;
  const std::string json_;
  const NonBlockingOutput output_;
};

/// Benchmark of `weft bench`, with a command line of its own. See run_bench_program().
class BenchProgram {
 public:
  struct Description {
    std::string name;          ///< Argument of `weft bench` that selects it: "reshard".
    std::string purpose;       ///< First lines of --help.
    std::string example;       ///< Command line of an example.
    std::string folder;        ///< Default of --out.
    std::string folder_holds;  ///< Content of that folder, such as "results and logs".

    /// Returns the prefix of error messages: "weft bench reshard".
    std::string command() const { return "weft bench " + name; }
  };

  virtual ~BenchProgram() = default;
  virtual Description description() const = 0;
  /// Registers the actors of the device processes. Another benchmark may not register them too.
  virtual void register_actors(actors::AppMain& /*app*/) const {}
  /// Adds the benchmark's own options. --json and --out come after them.
  virtual void add_options(CLI::App& app) = 0;
  /// Completes the options after the command line has been read. Returns an exit status if there is
  /// nothing to measure, such as after --list.
  virtual std::optional<int> complete_options(const CLI::App& /*app*/) { return std::nullopt; }
  /// Measures and prints the results. Returns the exit status. May throw an Error.
  virtual int measure(const BenchOutput& output) = 0;
};

/// Runs the benchmark that the first argument names. If the first argument is a process role
/// instead, runs as head, agent or device process of a TestCluster, with the actors of all
/// `benchmarks`. Returns the status of measure(); 1 after an error, 2 after wrong usage.
int run_bench_program(int argc, char** argv,
                      const std::vector<std::unique_ptr<BenchProgram>>& benchmarks);

/// Runs `work` with a token that SIGINT and SIGTERM set. A second signal ends the process at once.
/// Returns 130 if `work` throws an Error after a signal.
int run_until_signal(const std::function<int(const std::stop_token&)>& work);

/// Returns the options of a cluster on test hosts with `hosts` hosts, whose processes run this
/// executable. Uses this machine's loopback if `loopback` is true or if the machine cannot have
/// test hosts; then prints the reason and the `consequence`, such as "the links are not limited, so
/// ratios say little".
TestCluster::Options bench_cluster_options(const BenchProgram::Description& bench,
                                           const BenchOutput& output, int hosts, bool loopback,
                                           const std::string& consequence);

}  // namespace weft::apps
