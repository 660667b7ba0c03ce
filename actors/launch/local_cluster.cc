#include "actors/launch/local_cluster.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "actors/access/token.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/child_report.h"
#include "actors/launch/roles.h"
#include "actors/supervision/silence_timer.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr const char* kHead = "head";
constexpr auto kNotedAfter = std::chrono::seconds(5);
constexpr auto kReapedWithin = std::chrono::seconds(10);
constexpr Nanoseconds kLookForEndEvery = std::chrono::milliseconds(500);
constexpr auto kLookForAddressEvery = std::chrono::milliseconds(2);

std::vector<std::string> command(const std::filesystem::path& executable,
                                 std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), executable.string());
  for (std::string& word : token_arguments()) arguments.push_back(std::move(word));
  return arguments;
}

}  // namespace

struct LocalCluster::ProcessExit {
  pid_t pid = 0;  // used by the owner's thread
  Mutex mutex;
  Condition changed;
  std::optional<ExitReport> evidence;  // guarded by mutex
  bool reaped = false;                 // guarded by mutex
};

LocalCluster::LocalCluster(ProcessLauncher& launcher, Options options)
    : launcher_(launcher), options_(std::move(options)) {
  make_folders(log_directory());
  start_head();
  for (const HostSpec& host : options_.hosts) start_agent(host, options_.token);
}

LocalCluster::~LocalCluster() {
  TokenLink::remove(head_.port, token_file_in(options_.directory / "state"));
}

ProcessSpec LocalCluster::head_spec(const std::string& said, bool ignore_saved_members) const {
  HeadRole role;
  role.listen = {options_.listen_host, head_.port};
  role.state_directory = (options_.directory / "state").string();
  role.report_path = said;
  role.log_level = options_.log_level;
  role.ignore_saved_members = ignore_saved_members;
  role.has_parent = true;
  return {"head",
          command(options_.executable, to_arguments(role)),
          {},
          log_directory() / "head.log",
          options_.token};
}

ProcessEvents LocalCluster::events_of(const std::string& who) {
  const auto end = std::make_shared<ProcessExit>();
  ends_[who] = end;
  ProcessEvents events;
  events.on_death = [end, who, on_death = options_.on_death](const ExitReport& evidence) {
    {
      const std::lock_guard lock(end->mutex);
      end->evidence = evidence;
    }
    end->changed.notify_all();
    if (on_death) on_death(who, evidence);
  };
  events.on_stopped = events.on_death;
  events.on_reaped = [end](const ExitReport&) {
    const std::lock_guard lock(end->mutex);
    end->reaped = true;
    end->changed.notify_all();
  };
  return events;
}

void LocalCluster::wait_until_reaped(const std::string& who) const {
  ProcessExit& end = *ends_.at(who);
  const SteadyClock clock;
  SilenceTimer watched(kLookForEndEvery);  // time in which this process was stopped does not count
  std::unique_lock lock(end.mutex);
  while (!end.changed.wait_for(lock, kLookForEndEvery, [&] { return end.reaped; }))
    if (watched.update(clock.now()) > kReapedWithin)
      throw_error(ErrorCode::kDeadlineExceeded,
                  "{} (pid {}) died, and the system did not release its resources within 10 s", who,
                  end.pid);
}

void LocalCluster::restart_head(const Secret& token) {
  wait_until_reaped(kHead);
  ProcessSpec spec = head_spec("", false);
  spec.secret = token;
  ProcessEvents events = events_of(kHead);
  head_pid_ = launcher_.launch(spec, events);
  ends_.at(kHead)->pid = head_pid_;
}

void LocalCluster::restart_agent(const std::string& host, const Secret& token) {
  wait_until_reaped(host);
  for (const HostSpec& spec : options_.hosts)
    if (spec.name == host) start_agent(spec, token);
}

void LocalCluster::start_head() {
  const ChildReport said;
  const ProcessSpec spec = head_spec(said.path(), true);
  ProcessEvents events = events_of(kHead);
  head_pid_ = launcher_.launch(spec, events);
  ProcessExit& end = *ends_.at(kHead);
  end.pid = head_pid_;
  const SteadyClock clock;
  const TimePoint began = clock.now();
  bool noted = false;
  while (true) {
    if (const std::string text = said.read(); text.starts_with(kListeningPrefix)) {
      head_ = Address::parse(text.substr(kListeningPrefix.size()));
      return;
    }
    if (options_.gives_up && options_.gives_up())
      throw_error(ErrorCode::kCancelled, "interrupted before the head listened; log: {}",
                  spec.log_file.string());
    if (!noted && options_.note && clock.now() - began > kNotedAfter) {
      options_.note(
          fmt::format("waiting for the head to start (the disk of {} may be slow); log: {}",
                      (options_.directory / "state").string(), spec.log_file.string()));
      noted = true;
    }
    std::unique_lock lock(end.mutex);
    if (end.changed.wait_for(lock, kLookForAddressEvery,
                             [&] { return end.evidence.has_value(); })) {
      const std::string words = said.read();
      throw_error(ErrorCode::kPeerDied, "the head (pid {}) {} before it listened{}{}{}", head_pid_,
                  end.evidence->summary(), words.empty() ? "" : ": ", words,
                  end.evidence->log_note());
    }
  }
}

void LocalCluster::start_agent(const HostSpec& host, const Secret& token) {
  AgentRole role{
      head_, {}, host.name, host.devices, log_directory().string(), true, options_.log_level};
  role.capacity = host.capacity;
  std::vector<std::string> words = command(options_.executable, to_arguments(role));
  if (options_.wrap) words = options_.wrap(host.name, std::move(words));
  ProcessSpec spec{"agent of " + host.name,
                   std::move(words),
                   {},
                   log_directory() / ("agent." + host.name + ".log"),
                   token};
  spec.starts_capped_children = options_.caps_devices;
  ProcessEvents events = events_of(host.name);
  const pid_t pid = launcher_.launch(spec, events);
  ends_.at(host.name)->pid = pid;
}

}  // namespace weft::actors
