#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/launch/cluster_config.h"
#include "actors/launch/role_arguments.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Effect of SIGINT or SIGTERM on a driver at its present work.
enum class OnInterrupt {
  kFinishes,    ///< AppRun::stop is set; the driver ends after its current work
  kEndsAtOnce,  ///< nothing would be lost: the process ends
};

/// Options of an app, from a person or from `weft`.
class AppRun {
 public:
  /// Run file; empty if the app was started by hand without one.
  std::filesystem::path config;
  std::vector<std::string> overrides;  ///< values of --set
  std::filesystem::path out;           ///< folder of the results; exists, and so does out/logs
  bool json = false;
  bool quiet = false;  ///< check: no output unless something is wrong
  /// Arguments that the role itself does not take: options of the app's own handler.
  RoleArguments more;
  std::string head;  ///< driver: address of the head, "HOST:PORT"
  /// Driver: path of the app's executable on the hosts; empty: that of this process.
  std::string binary;
  std::stop_token stop;  ///< set by SIGINT or SIGTERM: finish the step, save, return 130
  /// Announces the driver's current work, for a person who interrupts it: "finishing step 37". Any
  /// thread. May be empty.
  std::function<void(const std::string& text, OnInterrupt then)> on_phase = {};
  /// Driver: returns true if a checkpoint was requested (SIGUSR1) since the last call. Any thread.
  /// May be empty.
  std::function<bool()> checkpoint_requested = {};
  /// Driver: announces that all is done, saved and printed, and only the clean-up is left. A
  /// clean-up of more than kCleanUpWithin is reported and cut off. May be empty.
  std::function<void()> clean_up_begins = {};
  static constexpr Nanoseconds kCleanUpWithin = std::chrono::seconds(8);
  /// Check: passes the digest of its plan to the driver. May be empty.
  std::function<void(const std::string& digest)> planned = {};
  /// Driver: digest of the check's plan; empty if there is none. A driver with another plan reads
  /// an input that has changed.
  std::string plan_digest;
  /// Driver: true if it is started again after a crash, as AppMain::allow_restarts() permits.
  bool restartable = false;
  /// Base folder of the paths in `config`, if that is a copy; else empty.
  std::filesystem::path config_folder;
  /// Driver of a detached run: its host and the number of the run there, "worker0:3"; else empty.
  std::string started_by;
  /// Driver: number of its restarts in this run. Earlier work is in `out`.
  std::uint64_t restart = 0;
  /// Driver: path of the run's count of deaths, see RestartBudget; empty: its own count.
  std::string restarts;
  /// Driver: path of a file in the memory of `weft run`, for data that the disk refuses, so that
  /// the run's next driver can read it. Empty: none.
  std::string refused;
  /// Driver: new place of the earlier run that was at `out`. May be empty.
  std::filesystem::path moved = {};

  /// Returns the run file with its overrides, read once, at the first call. One thread at a time.
  /// Throws Error(kInvalidConfig).
  const ConfigDocument& document() const;

 private:
  mutable std::shared_ptr<const ConfigDocument> document_;  // shared by copies of this object
};

/// Main program of an app: one executable that serves every role.
///
///   int main(int argc, char** argv) {
///     weft::actors::AppMain app(argc, argv);
///     app.provide<Greeter>();
///     return app.run([](weft::actors::Cluster& cluster, const weft::actors::AppRun&) {
///       auto greeters = cluster.spawn<Greeter>("greeters", {{"x", 2}}, {});
///       ...
///       return 0;
///     });
///   }
///
/// Roles: driver, check, plan, keys, device (see actors/README.md), head and agent of a local
/// cluster. Without a role the app was started by hand: it drives a cluster of its own on this
/// machine (--workers N, --devices N), or a running one (--head HOST:PORT). Exit statuses: 0 done,
/// 1 failed, 2 wrong usage or configuration, 130 interrupted.
class AppMain final {
 public:
  using Drive = std::function<int(Cluster&, const AppRun&)>;
  using Inspect = std::function<int(const AppRun&)>;
  using ReadKeys = std::function<void(const ConfigDocument&)>;

  AppMain(int argc, char** argv);

  /// Lets device processes of this binary host actors of class T.
  template <typename T>
  void provide() {
    provided_.push_back([](System& system) { system.provide<T>(); });
  }
  /// Like provide(), with actors made by `make`: see System::provide().
  template <typename T, typename Make>
  void provide(Make make) {
    provided_.push_back([make = std::move(make)](System& system) { system.provide<T>(make); });
  }
  /// Sets the check. It prints what is right, as JSON if asked, or throws; the library prints
  /// errors.
  void on_check(Inspect check) { check_ = std::move(check); }
  /// Sets the function for `weft plan`. Its own options are in AppRun::more.
  void on_plan(Inspect plan) { plan_ = std::move(plan); }
  /// Declares that a driver that is started again resumes from its earlier work in AppRun::out.
  /// Otherwise the death of a driver or an agent ends the run.
  void allow_restarts() { allows_restarts_ = true; }
  /// Sets the function that reads a run file as a driver does, for `weft keys`: see keys_read_by().
  /// Without it, only the keys of all apps are known.
  void on_keys(ReadKeys read) { read_keys_ = std::move(read); }
  /// Serves the role and returns the exit status. Calls `drive` for a driver only.
  int run(const Drive& drive);

 private:
  int serve(const Drive& drive);
  int serve_check(const RoleArguments& arguments);
  int serve_keys(const RoleArguments& arguments);
  int serve_driver(const Drive& drive, const RoleArguments& arguments);
  int serve_by_hand(const Drive& drive);

  std::vector<std::string> arguments_;
  std::vector<std::function<void(System&)>> provided_;
  Inspect check_;
  Inspect plan_;
  ReadKeys read_keys_;
  bool allows_restarts_ = false;
};

/// Returns 130 for kCancelled after an interruption, 2 for kInvalidConfig, 1 for everything else.
int exit_status_of(const Error& error, bool interrupted);

}  // namespace weft::actors
