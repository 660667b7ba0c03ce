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
constexpr auto kLookForAddressEvery = std::chrono::milliseconds(2);

std::vector<std::string> command(const std::filesystem::path& executable,
                                 std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), executable.string());
  for (std::string& word : token_arguments()) arguments.push_back(std::move(word));
  return arguments;
}

/// The evidence of an early death, handed from the launcher's thread.
struct EarlyDeath {
  Mutex mutex;
  Condition changed;
  std::optional<ExitEvidence> evidence;  // guarded by mutex
};

}  // namespace

LocalCluster::LocalCluster(ProcessLauncher& launcher, Options options)
    : launcher_(launcher), options_(std::move(options)) {
  std::filesystem::create_directories(log_directory());
  start_head();
  for (const HostSpec& host : options_.hosts) start_agent(host);
}

LocalCluster::~LocalCluster() {
  TokenLink::remove(head_.port, token_file_in(options_.directory / "state"));
}

void LocalCluster::start_head() {
  HeadRole role;
  role.listen = {options_.listen_host, 0};
  role.state_directory = (options_.directory / "state").string();
  const LastWords said;
  role.said = said.path();
  role.log_level = options_.log_level;
  ProcessSpec spec{"head",
                   command(options_.executable, to_arguments(role)),
                   {},
                   log_directory() / "head.log",
                   options_.token};
  // shared with the launcher's thread, which may come later
  auto early = std::make_shared<EarlyDeath>();
  ProcessEvents events;
  events.on_death = [early, on_death = options_.on_death](const ExitEvidence& evidence) {
    {
      std::lock_guard lock(early->mutex);
      early->evidence = evidence;
    }
    early->changed.notify_all();
    if (on_death) on_death("head", evidence);
  };
  events.on_stopped = events.on_death;
  head_pid_ = launcher_.launch(spec, events);
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
    std::unique_lock lock(early->mutex);
    if (early->changed.wait_for(lock, kLookForAddressEvery,
                                [&] { return early->evidence.has_value(); })) {
      const std::string words = said.read();
      throw_error(ErrorCode::kPeerDied, "the head (pid {}) {} before it listened{}{}{}", head_pid_,
                  early->evidence->verdict(), words.empty() ? "" : ": ", words,
                  early->evidence->log_note());
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
