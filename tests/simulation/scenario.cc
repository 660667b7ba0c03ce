#include "tests/simulation/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "actors/cluster/repeated_stops.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/roles.h"

namespace weft::simulation {
namespace {

constexpr int kWorkers = 2;  // workers that a run needs, without the spare
constexpr std::uint32_t kDevices = 2;
constexpr std::uint16_t kHeadPort = 7077;
constexpr std::string_view kAgentOf = "agent of ";
/// Time limit of a run after its faults have ended.
constexpr auto kOverWithin = std::chrono::seconds(120);
/// Time limit of the second run, which may wait until the first run's devices are released.
constexpr auto kCalmRun = std::chrono::seconds(80);
constexpr auto kEndsWithin = std::chrono::seconds(60);
/// Time after a cut in which a host is reached again, by a retransmission after 3 s, and told what
/// has ended: RepeatedStops does so every second.
constexpr Nanoseconds kToldWithin =
    std::chrono::seconds(3) + actors::RepeatedStops::kRepeatAfter + std::chrono::milliseconds(100);
/// Time in which an operator starts a head again that a run which does not end waits for.
constexpr auto kNoticedWithin = std::chrono::seconds(30);
/// Largest difference of a host's clock rate from the world's, in thousandths.
constexpr int kClockDrift = 20;

std::string worker_name(int worker) { return fmt::format("worker{}", worker); }

std::vector<std::string> with_token(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "weft");
  for (std::string& word : actors::token_arguments()) arguments.push_back(std::move(word));
  return arguments;
}

}  // namespace

Scenario::Scenario(Options options)
    : options_(std::move(options)),
      keeper_(keeper_of(options_.seed)),
      training_(training_of(options_)),
      workers_(kWorkers + static_cast<int>(std::ssize(training_.spares))),
      world_(options_.seed,
             [this](const std::vector<std::string>& arguments) {
               return tiny_main(world_, records_, training_, arguments);
             }),
      token_(Secret::random()) {
  world_.print_trace(options_.trace);
  if (!options_.calm) world_.set_loss(world_.chance(0.5) ? 0.001 : 0.02);
  if (!options_.calm && world_.chance(0.5))
    for (int host = 0; host <= workers_; ++host)
      world_.set_clock(host, 1 + world_.random(-kClockDrift, kClockDrift) / 1e3,
                       world_.random_time(Nanoseconds::zero(), std::chrono::hours(1)));
  if (options_.plant == Plant::kLosesWakeup) world_.lose_wakeups(0.0005);
  if (options_.plant == Plant::kForgetsState) world_.disk().lose_syncs();
  if (options_.plant == Plant::kFreesDevices) world_.let_children_live();
  world_.hide(options_.scratch.string());
  records_.token = token_;
  records_.service.is_cut_off = [this] {
    return world_.was_cut(world_.host_of(world_.current_process()), 0, kToldWithin);
  };
  records_.objects.has_second_copies = options_.seed / 8 % 2 == 0;
}

Scenario::Keeper Scenario::keeper_of(std::uint64_t seed) {
  switch (seed % 8) {
    case 1:
    case 5: return Keeper::kOperator;
    case 3: return Keeper::kRun;
    case 7: return Keeper::kLocalRun;
    default: return Keeper::kNobody;
  }
}

TinyOptions Scenario::training_of(const Options& scenario) {
  const std::uint64_t seed = scenario.seed;
  TinyOptions options;
  options.devices = kWorkers * kDevices;
  options.steps = 100;
  options.plant = scenario.plant;
  options.calm = scenario.calm;
  options.has_service = seed % 3 == 0;
  options.has_objects = seed % 5 == 2;
  options.has_rooms = seed % 5 == 4;
  options.recovers = keeper_of(seed) != Keeper::kNobody;
  options.joined = {worker_name(0), worker_name(1)};
  // Places a mesh on each host. Some seeds have a spare host.
  if (options.recovers && seed / 8 % 2 == 1) options.hosts = {worker_name(0), worker_name(1)};
  if (!options.hosts.empty() && seed / 16 % 2 == 1) options.spares = {worker_name(kWorkers)};
  return options;
}

void Scenario::violation(const std::string& what) { records_.violations.push_back(what); }

ProcessNumber Scenario::find(const std::string& label) const {
  for (const ProcessNumber process : world_.processes())
    if (world_.label_of(process) == label) return process;
  return 0;
}

void Scenario::start_head() {
  actors::HeadRole role;
  role.listen = {ClusterWorld::address_of(0), kHeadPort};
  role.state_directory = (options_.scratch / "head").string();
  world_.run("head", 0, with_token(actors::to_arguments(role)), token_);
}

void Scenario::start_worker(int worker) {
  actors::AgentRole role;
  role.head = {ClusterWorld::address_of(0), kHeadPort};
  role.name = worker_name(worker);
  role.devices = kDevices;
  role.capacity.custom[kSeat] = kSeats;
  role.log_directory = (options_.scratch / "logs").string();
  world_.run(worker_name(worker), worker + 1, with_token(actors::to_arguments(role)), token_);
}

void Scenario::start_missing() {
  if (keeper_ == Keeper::kLocalRun) return;
  if (find("head") == 0) start_head();
  for (int worker = 0; worker < workers_; ++worker)
    if (find(worker_name(worker)) == 0) start_worker(worker);
}

ProcessNumber Scenario::start_run(const std::string& name) {
  const std::string head = fmt::format("{}:{}", ClusterWorld::address_of(0), kHeadPort);
  const std::filesystem::path out = options_.scratch / name;
  if (!supervised())
    return world_.run(name, 0,
                      with_token({"--weft-role=driver", "--head", head, "--out", out.string(),
                                  "--name", name, "--last-words", "/dev/null"}),
                      token_);
  const std::filesystem::path file = options_.scratch / (name + ".yaml");
  std::ofstream yaml(file);
  yaml << "name: " << name << "\napp: /proc/self/exe\nrecovery: {restarts: 100"
       << (training_.spares.empty() ? "" : ", spares: [" + training_.spares.front() + "]")
       << "}\ncluster:\n  hosts:\n";
  for (int worker = 0; worker < workers_; ++worker)
    yaml << fmt::format("    - {{name: {}, devices: {}, resources: {{{}: {}}}}}\n",
                        worker_name(worker), kDevices, kSeat, kSeats);
  yaml.close();
  return world_.run(
      name, 0, run_words(file.string(), keeper_ == Keeper::kLocalRun ? "" : head, out.string()),
      token_);
}

/// Adds the names that an error may give as its cause: the process and its children.
void Scenario::suspect(ProcessNumber process) {
  const std::string label = world_.label_of(process);
  suspects_.insert(label);
  if (label.starts_with(kAgentOf)) suspects_.insert(label.substr(kAgentOf.size()));
  if (label == "first" || label.starts_with("driver of")) suspects_.insert("driver");
  for (const ProcessNumber child : world_.processes())
    if (world_.parent_of(child) == process) suspects_.insert(world_.label_of(child));
}

void Scenario::suspect_host(int host) {
  suspects_.insert(ClusterWorld::address_of(host) + ":");
  for (const ProcessNumber process : world_.processes())
    if (world_.host_of(process) == host) suspect(process);
}

bool Scenario::names_a_suspect(const std::string& error) const {
  // A missing host is named by its absence from the error's table of hosts.
  if (error.find("does not fit on") != std::string::npos)
    for (int worker = 0; worker < workers_; ++worker)
      if (suspects_.contains(worker_name(worker)) &&
          error.find("  " + worker_name(worker) + " ") == std::string::npos)
        return true;
  return std::ranges::any_of(
      suspects_, [&](const std::string& word) { return error.find(word) != std::string::npos; });
}

/// Simulates an operator who restarts the head and agents.
void Scenario::keep_up() {
  world_.after(world_.random_time(std::chrono::milliseconds(20), std::chrono::seconds(10)), [this] {
    if (over_) return;
    for (int worker = 0; worker < workers_; ++worker)
      if (find(worker_name(worker)) == 0 && !world_.is_dark(worker + 1)) start_worker(worker);
    if (find("head") == 0 && !world_.is_dark(0)) start_head();
    keep_up();
  });
}

void Scenario::start_head_after(ProcessNumber former) {
  // One that is stopped takes a signal only when it goes on.
  if (!over_ && world_.alive(former))
    world_.after(std::chrono::milliseconds(100), [this, former] { start_head_after(former); });
  else if (!over_ && find("head") == 0 && !world_.is_dark(0)) start_head();
}

void Scenario::strike(TimePoint until) {
  std::vector<ProcessNumber> all = world_.processes();
  if (all.empty()) return;
  const ProcessNumber head = find("head");
  const ProcessNumber victim =
      head != 0 && world_.chance(0.2) ? head : all[world_.random(0, std::ssize(all) - 1)];
  const std::string label = world_.label_of(victim);
  const Nanoseconds longest = until - world_.now();
  const Nanoseconds lasts =
      world_.chance(0.5)
          ? world_.random_time(std::chrono::milliseconds(10), std::chrono::seconds(2))
          : world_.random_time(std::chrono::seconds(2), longest);
  switch (world_.random(0, keeper_ == Keeper::kLocalRun ? 2 : 5)) {
    case 4: {
      const int host = world_.random(0, workers_);
      ++beyond_head_;
      if (host == 0) ++beyond_recovery_;
      suspect_host(host);
      faults_.push_back(fmt::format("host {} loses power for {:.1f} s", host, in_seconds(lasts)));
      return world_.lose_power(host, host == 0 ? "/head/" : "/none/", lasts);
    }
    case 5:
      ++beyond_head_;  // a restarted head lacks data that could not be written
      ++beyond_recovery_;
      suspects_.insert("disk");
      records_.may_forget = true;
      faults_.push_back(fmt::format("the disk is full for {:.1f} s", in_seconds(lasts)));
      world_.disk().set_full(true);
      world_.after(lasts, [this] { world_.disk().set_full(false); });
      return;
    case 0:
    case 1: {
      const bool again = label == "head" && keeper_ != Keeper::kLocalRun && world_.chance(0.8);
      // A run and its driver take SIGTERM as Ctrl-C, so they are only killed.
      const bool signalled =
          label != "first" && !label.starts_with("driver of") && world_.chance(0.3);
      suspect(victim);
      faults_.push_back(fmt::format("{} {}{}", label, signalled ? "got SIGTERM" : "killed",
                                    again ? " and started again" : ""));
      if (!again) ++beyond_head_;
      if (label == "first") ++beyond_recovery_;
      if (signalled) world_.signal(victim, SIGTERM, ClusterWorld::Sender::kSomebodyElse);
      else world_.kill(victim, "died: SIGKILL");
      if (label.starts_with("driver of") && world_.chance(0.5)) lose_shared_process();
      if (again)
        world_.after(world_.random_time(std::chrono::milliseconds(20), std::chrono::seconds(20)),
                     [this, victim] { start_head_after(victim); });
      // Restarts of actors wait for a head.
      else if (label == "head" && keeper_ != Keeper::kLocalRun &&
               (training_.has_service || training_.has_objects))
        world_.after(kNoticedWithin, [this, victim] { start_head_after(victim); });
      return;
    }
    case 2:
      suspect(victim);
      faults_.push_back(fmt::format("{} stopped for {:.1f} s", label, in_seconds(lasts)));
      if (label != "head") ++beyond_head_;
      world_.stop(victim);
      world_.after(lasts, [this, victim] { world_.go_on(victim); });
      return;
    default: {
      const int from = world_.random(0, workers_);
      const int to = (from + world_.random(1, workers_)) % (workers_ + 1);
      const bool both = world_.chance(0.5);
      suspect_host(from);
      suspect_host(to);
      ++beyond_head_;
      faults_.push_back(fmt::format("{} {} cut for {:.1f} s", from, to, in_seconds(lasts)));
      world_.cut(from, to);
      if (both) world_.cut(to, from);
      world_.after(lasts, [this, from, to] {
        world_.mend(from, to);
        world_.mend(to, from);
      });
    }
  }
}

/// Kills a shared process, so that actors are lost while their driver is restarted.
void Scenario::lose_shared_process() {
  for (const ProcessNumber process : world_.processes()) {
    if (!world_.label_of(process).starts_with(actors::kSharedProcessName)) continue;
    suspect(process);
    faults_.push_back(world_.label_of(process) + " killed with it");
    return world_.kill(process, "died: SIGKILL");
  }
}

void Scenario::plan_faults(TimePoint until) {
  const int count = world_.random(1, 3);
  // Faults come while the meshes start, or at any time.
  const bool early = world_.chance(0.3);
  const Nanoseconds latest =
      early ? std::chrono::milliseconds(150) : std::chrono::milliseconds(2500);
  for (int i = 0; i < count; ++i)
    world_.after(world_.random_time(std::chrono::milliseconds(1), latest),
                 [this, until] { strike(until); });
  if (keeper_ == Keeper::kOperator && world_.chance(0.3)) lose_head_at_the_end();
}

/// Kills the head during the run's last steps. The next head starts after the run has ended, if it
/// ends soon.
void Scenario::lose_head_at_the_end() {
  world_.after(std::chrono::milliseconds(10), [this] {
    const Records::Run& run = records_.runs["first"];
    // A full disk may have lost the head's data, its term included.
    if (over_ || run.done || suspects_.contains("disk")) return;
    const ProcessNumber head = find("head");
    if (run.kept_step < training_.steps - 20 || head == 0) return lose_head_at_the_end();
    suspect(head);
    faults_.push_back("head killed at the end");
    world_.kill(head, "died: SIGKILL");
    // Restarts of actors wait for a head.
    world_.after(kNoticedWithin, [this, head] { start_head_after(head); });
  });
}

void Scenario::check_run(const std::string& name, ProcessNumber driver) {
  const Records::Run& run = records_.runs[name];
  const std::string faults = fmt::format("{}", fmt::join(faults_, ", "));
  if (world_.alive(driver)) {
    violation(fmt::format("{} has neither done nor failed ({})", name, faults));
    world_.kill(driver, "died: SIGKILL by the watcher");
  }
  if (run.done && run.loss != expected_loss(training_))
    violation(fmt::format("{} ends with {}, undisturbed with {}", name, run.loss,
                          expected_loss(training_)));
  if (!run.done && faults_.empty())
    violation(fmt::format("{} failed though nothing had: {}", name, run.error));
  else if (!run.done && run.begun && recovers() && beyond_recovery_ == 0)
    violation(fmt::format("{} has not recovered ({}): {}", name, faults, run.error));
  else if (run.done && run.status.value_or(0) != 0 && beyond_recovery_ == 0)
    violation(fmt::format("{} is done, and has failed ({}): {}", name, faults, run.error));
  else if (!run.done && run.begun && beyond_head_ == 0)
    violation(fmt::format("{} failed though only the head had ({}): {}", name, faults, run.error));
  if (!run.done && run.begun && !run.error.empty() && !names_a_suspect(run.error))
    violation(fmt::format("{} failed, and names another cause ({}): {}", name, faults, run.error));
  if (run.error.find("VIOLATION") != std::string::npos) violation(run.error);
  outcome_ += fmt::format("{}{}{}: {}", outcome_.empty() ? "" : "; ", name,
                          faults.empty() ? "" : " (" + faults + ")",
                          run.done ? "done" : "failed: " + run.error.substr(0, 160));
}

void Scenario::check_end() {
  over_ = true;
  // Ends the head first, so that agents leave without it.
  world_.signal(find("head"), SIGTERM, ClusterWorld::Sender::kSomebodyElse);
  for (int worker = 0; worker < workers_; ++worker)
    world_.signal(find(worker_name(worker)), SIGTERM, ClusterWorld::Sender::kSomebodyElse);
  world_.run_until(world_.now() + kEndsWithin, [this] { return world_.processes().empty(); });
  for (const ProcessNumber process : world_.processes())
    violation(fmt::format("{} (process {}) is left at the end", world_.label_of(process), process));
}

Scenario::Result Scenario::run() {
  const auto ended = [this](ProcessNumber process) {
    return [this, process] { return !world_.alive(process); };
  };
  start_missing();
  world_.run_until(world_.now() + std::chrono::seconds(3), [] { return false; });
  const TimePoint mended = world_.now() + std::chrono::seconds(30);
  records_.is_disturbed = !options_.calm;
  if (!options_.calm) plan_faults(mended);
  if (keeper_ == Keeper::kOperator || keeper_ == Keeper::kRun) keep_up();
  const ProcessNumber first = start_run("first");
  world_.run_until(mended + kOverWithin, ended(first));
  check_run("first", first);
  // All faults have ended by now. An operator restarts ended processes.
  if (!options_.calm) world_.run_until(mended + std::chrono::seconds(1), [] { return false; });
  faults_.clear();
  suspects_.clear();
  if (keeper_ == Keeper::kLocalRun) {  // the second run has its own cluster
    records_.cluster.clear();
    records_.term = 0;
    records_.last_epochs.clear();
    records_.device_owners.clear();
  }
  // The head must list the first run as done if no fault could prevent that: the driver must report
  // it, and the agents must pass it on.
  records_.first_is_done =
      records_.runs["first"].done && beyond_head_ == 0 && keeper_ != Keeper::kLocalRun;
  beyond_head_ = beyond_recovery_ = 0;
  for (int i = 0; i < 40; ++i) {
    start_missing();
    world_.run_until(world_.now() + std::chrono::milliseconds(500), [] { return false; });
  }
  records_.is_disturbed = records_.may_forget = false;
  const ProcessNumber second = start_run("second");
  world_.run_until(world_.now() + kCalmRun, ended(second));
  check_run("second", second);
  check_end();
  for (const auto& found : {records_.service.violations, records_.objects.violations,
                            records_.rooms.violations, world_.memory().violations()})
    for (const std::string& what : found) violation(what);
  return {records_.violations, outcome_, in_seconds(world_.now().time_since_epoch()),
          world_.switches(), world_.digest()};
}

}  // namespace weft::simulation
