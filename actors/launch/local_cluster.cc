#include "actors/launch/local_cluster.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "actors/launch/last_words.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr auto kListensWithin = std::chrono::seconds(10);
constexpr auto kReapedWithin = std::chrono::seconds(10);
constexpr auto kLookForAddressEvery = std::chrono::milliseconds(2);

std::vector<std::string> command(const std::filesystem::path& executable,
                                 std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), executable.string());
  for (std::string& word : token_arguments()) arguments.push_back(std::move(word));
  return arguments;
}

}  // namespace

/// Handed from the launcher's thread.
struct LocalCluster::HeadEnd {
  Mutex mutex;
  Condition changed;
  std::optional<ExitEvidence> evidence;  // guarded by mutex
  bool reaped = false;                   // guarded by mutex
};

LocalCluster::LocalCluster(ProcessLauncher& launcher, Options options)
    : launcher_(launcher), options_(std::move(options)) {
  std::filesystem::create_directories(log_directory());
  start_head();
  for (const HostSpec& host : options_.hosts) start_agent(host);
}

LocalCluster::~LocalCluster() {
  TokenLink::remove(head_.port, token_file_in(options_.directory / "state"));
}

ProcessSpec LocalCluster::head_spec(const std::string& said, bool begins_anew) const {
  HeadRole role;
  role.listen = {options_.listen_host, head_.port};
  role.state_directory = (options_.directory / "state").string();
  role.said = said;
  role.log_level = options_.log_level;
  role.begins_anew = begins_anew;
  return {"head",
          command(options_.executable, to_arguments(role)),
          {},
          log_directory() / "head.log",
          options_.token};
}

ProcessEvents LocalCluster::head_events() {
  head_end_ = std::make_shared<HeadEnd>();
  ProcessEvents events;
  events.on_death = [end = head_end_, on_death = options_.on_death](const ExitEvidence& evidence) {
    {
      const std::lock_guard lock(end->mutex);
      end->evidence = evidence;
    }
    end->changed.notify_all();
    if (on_death) on_death("head", evidence);
  };
  events.on_stopped = events.on_death;
  events.on_reaped = [end = head_end_](const ExitEvidence&) {
    const std::lock_guard lock(end->mutex);
    end->reaped = true;
    end->changed.notify_all();
  };
  return events;
}

void LocalCluster::restart_head(const Secret& token) {
  {
    std::unique_lock lock(head_end_->mutex);
    if (!head_end_->changed.wait_for(lock, kReapedWithin, [this] { return head_end_->reaped; }))
      throw_error(ErrorCode::kDeadlineExceeded,
                  "the head (pid {}) died, and the system has not freed what it held within 10 s",
                  head_pid_);
  }
  ProcessSpec spec = head_spec("", false);
  if (!token.empty()) spec.secret = token;
  head_pid_ = launcher_.launch(spec, head_events());
}

void LocalCluster::start_head() {
  const LastWords said;
  const ProcessSpec spec = head_spec(said.path(), true);
  head_pid_ = launcher_.launch(spec, head_events());
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kListensWithin;
  while (true) {
    if (const std::string text = said.read(); text.starts_with(kListensAt)) {
      head_ = Address::parse(text.substr(kListensAt.size()));
      return;
    }
    if (clock.now() > give_up)
      throw_error(ErrorCode::kDeadlineExceeded, "the head does not listen after 10 s; log: {}",
                  spec.log_file.string());
    std::unique_lock lock(head_end_->mutex);
    if (head_end_->changed.wait_for(lock, kLookForAddressEvery,
                                    [&] { return head_end_->evidence.has_value(); })) {
      const std::string words = said.read();
      throw_error(ErrorCode::kPeerDied, "the head (pid {}) {} before it listened{}{}{}", head_pid_,
                  head_end_->evidence->verdict(), words.empty() ? "" : ": ", words,
                  head_end_->evidence->log_note());
    }
  }
}

void LocalCluster::start_agent(const HostSpec& host) {
  const AgentRole role{
      head_, {}, host.name, host.devices, log_directory().string(), true, options_.log_level};
  std::vector<std::string> words = command(options_.executable, to_arguments(role));
  if (options_.wrap) words = options_.wrap(host.name, std::move(words));
  ProcessSpec spec{"agent of " + host.name,
                   std::move(words),
                   {},
                   log_directory() / ("agent." + host.name + ".log"),
                   options_.token};
  ProcessEvents events;
  events.on_death = [name = host.name, on_death = options_.on_death](const ExitEvidence& evidence) {
    if (on_death) on_death(name, evidence);
  };
  events.on_stopped = events.on_death;
  launcher_.launch(spec, events);
}

}  // namespace weft::actors
