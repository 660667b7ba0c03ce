#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/launch/cluster.h"
#include "actors/launch/cluster_config.h"
#include "core/base/clock.h"

namespace weft::actors {

class RoleArguments;

/// What SIGINT or SIGTERM does to a driver at its present work.
enum class IfInterrupted {
  kFinishes,    ///< AppRun::stop is set, and the driver ends when it has done what it is doing
  kEndsAtOnce,  ///< nothing would be lost: the process ends
};

/// What the person or `weft` has asked of the app.
class AppRun {
 public:
  /// the run file; empty when the app was started by hand without one
  std::filesystem::path config;
  std::vector<std::string> overrides;  ///< the values of --set
  std::filesystem::path out;           ///< where results go; it exists, and so does out/logs
  bool json = false;
  bool quiet = false;    ///< of a check: say nothing unless something is wrong
  std::string programs;  ///< of a plan: the device whose program to print, kAllPrograms, or nothing
  /// Of a plan: how tensors are split on this mesh is to be printed; empty: on each.
  std::optional<std::string> strategy;
  std::string layouts;  ///< Of a plan: "1d,3d" are to be compared; or nothing,
  std::string svg;      ///< and drawn into this file.
  std::string head;     ///< "HOST:PORT"; of a driver
  /// Of a driver: path of the app's executable on the hosts; empty: that of this process.
  std::string binary;
  std::stop_token stop;  ///< SIGINT or SIGTERM: finish the step, save, return 130
  /// Tells what the driver is at, for whoever interrupts it: "finishing step 37". Any thread. May
  /// be empty.
  std::function<void(const std::string& text, IfInterrupted then)> doing = {};
  /// Of a driver: whether somebody has asked for a checkpoint (SIGUSR1) since the last call. Any
  /// thread. May be empty.
  std::function<bool()> checkpoint_asked = {};
  /// Of a driver: all is done, saved and said, and only the clean-up is left. From here on the
  /// program's own part ends within kCleanUpWithin: what hangs then is named and cut off. May be
  /// empty.
  std::function<void()> clean_up_begins = {};
  static constexpr Nanoseconds kCleanUpWithin = std::chrono::seconds(8);
  /// Of a check: leaves the digest of what it has planned for the driver. May be empty.
  std::function<void(const std::string& digest)> planned = {};
  /// Of a driver: the digest that the check has left; empty where there is none.
  std::string checked;
  /// Where `config` is a copy: the folder from which its paths count; else empty.
  std::filesystem::path config_folder;
  /// Of the driver of a detached run: "worker0:3", the host and which one of its runs; else empty.
  std::string started_by;
  /// Of a driver: how often it has been started again in this run. What it has done lies in `out`.
  std::uint64_t restart = 0;
  /// Of a driver: where the deaths of its run are counted, see RestartBudget; empty: by itself.
  std::string restarts;
  /// Path of a file in the memory of `weft run`, for a driver: holds what the disk refuses, so that
  /// the next driver of the run can read it. Empty: none.
  std::string refused;
  /// Of a driver: where the earlier run that lay at `out` lies now. May be empty.
  std::filesystem::path moved = {};

  static constexpr const char* kAllPrograms = "all";

  /// The run file with its overrides, read when it is first asked for, and once. One thread at a
  /// time. Throws Error(kInvalidConfig).
  const ConfigDocument& document() const;

 private:
  mutable std::shared_ptr<const ConfigDocument> document_;  // shared by copies of this
};

/// The main() of an app: one executable that serves every role it can be started in.
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
/// machine (--workers N, --devices N), or one that runs (--head HOST:PORT). Exit statuses: 0 done,
/// 1 failed, 2 wrong usage or configuration, 130 interrupted.
class AppMain final {
 public:
  using Drive = std::function<int(Cluster&, const AppRun&)>;
  using Inspect = std::function<int(const AppRun&)>;
  using ReadKeys = std::function<void(const ConfigDocument&)>;

  AppMain(int argc, char** argv);

  /// Actors of this class can be spawned in device processes of this binary.
  template <typename T>
  void provide() {
    provided_.push_back([](System& system) { system.provide<T>(); });
  }
  /// The same, made by `make`: see System::provide().
  template <typename T, typename Make>
  void provide(Make make) {
    provided_.push_back([make = std::move(make)](System& system) { system.provide<T>(make); });
  }
  /// It says what is right, as JSON if asked, or throws; mistakes are printed by the library.
  void on_check(Inspect check) { check_ = std::move(check); }
  void on_plan(Inspect plan) { plan_ = std::move(plan); }
  /// Reads a run file as a driver does, for `weft keys`: see keys_read_by(). Without it the keys
  /// are those that all apps have.
  void on_keys(ReadKeys read) { read_keys_ = std::move(read); }
  /// Serves the role and returns the exit status. `drive` is called for a driver only.
  int run(const Drive& drive);

 private:
  int serve(const Drive& drive);
  /// `resolved_to`: where to leave the resolved run file for `weft run`; may be empty.
  int serve_check(const AppRun& run, const std::string& resolved_to);
  int serve_keys(const RoleArguments& arguments);
  int serve_driver(const Drive& drive, const RoleArguments& arguments);
  int serve_by_hand(const Drive& drive);

  std::vector<std::string> arguments_;
  std::vector<std::function<void(System&)>> provided_;
  Inspect check_;
  Inspect plan_;
  ReadKeys read_keys_;
};

/// 130 for kCancelled after an interruption, 2 for kInvalidConfig, 1 for everything else.
int exit_status_of(const Error& error, bool interrupted);

}  // namespace weft::actors
