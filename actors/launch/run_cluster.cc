#include "actors/launch/run_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "actors/access/token.h"
#include "actors/head/head.h"
#include "core/base/announced_wait.h"
#include "core/base/machine.h"
#include "core/base/terminal.h"

namespace weft::actors {
namespace {

constexpr auto kJoinWithin = std::chrono::seconds(20);
constexpr auto kHeadToldWithin = std::chrono::milliseconds(500);
constexpr auto kGreetWithin = std::chrono::seconds(5);

}  // namespace

RunCluster::RunCluster(const SupervisedRun& run, ProcessLauncher& launcher,
                       SupervisorEventQueue& queue)
    : run_(run), launcher_(launcher), queue_(queue), head_address_(run.head) {}

void RunCluster::start(const std::function<std::filesystem::path()>& executable,
                       const std::function<bool()>& gives_up) {
  if (head_address_.empty()) start_local(executable(), gives_up);
  else
    token_ = !run_.token.empty()
                 ? run_.token
                 : find_token(Address::parse(head_address_), run_.token_file, kConnectWithin);
  connect();
}

void RunCluster::start_local(const std::filesystem::path& executable,
                             const std::function<bool()>& gives_up) {
  const auto on_death = [&queue = queue_](const std::string& who, const ExitReport& evidence) {
    queue.add({who == "head" ? SupervisorEvent::Kind::kHeadDied : SupervisorEvent::Kind::kHostDied,
               who, evidence});
  };
  token_ = Secret::random();
  LocalCluster::Options options{executable, run_.header.cluster.hosts, run_.out, token_,
                                on_death,   run_.header.log_level};
  options.caps_devices = run_.header.cluster.memory != 0;
  options.note = [](const std::string& text) { say(stderr, "weft: {}\n", text); };
  options.gives_up = gives_up;
  local_.emplace(launcher_, std::move(options));
  head_address_ = to_string(local_->head());
}

void RunCluster::connect() {
  const Address address = Address::parse(head_address_);
  SystemOptions options;
  options.name = "weft run";
  options.token = token_;
  run_.protection.apply(address, options);
  system_.emplace(options);
  const auto gone = [ear = ear_](const ProcessRef& peer, const std::string& how) {
    ear.tell([&](HeadLink& link) { link.report_peer_loss(peer, how); });
  };
  system_->on_peer_eof([gone](const ProcessRef& peer) { gone(peer, "disconnected"); });
  system_->on_peer_disconnected([gone](const ProcessRef& peer, const Error&, DisconnectCause) {
    gone(peer, "disconnected");
  });
  HeadLink::LinkCallbacks events;
  events.greet = [this](const ProcessRef& head) {
    const auto status =
        system_->named<Head>(head, "head").within(kGreetWithin).call<&Head::status>().get();
    return JoinReply{status.cluster, status.term, 0};
  };
  events.on_back = [this](const JoinReply&, Nanoseconds) {
    queue_.add({SupervisorEvent::Kind::kHeadBack, "", {}});
  };
  link_.emplace(*system_, address, events);
  binding_.emplace(ear_, *link_);
  link_->join();
}

std::vector<std::string> RunCluster::missing_hosts(const ClusterStatus& status) const {
  std::vector<std::string> missing;
  for (const HostSpec& host : run_.header.cluster.hosts) {
    bool joined = run_.header.recovery.is_spare(host.name);
    for (const HostStatus& line : status.hosts)
      joined = joined || (line.offer.name == host.name && !line.unreachable_seconds);
    if (!joined) missing.push_back(host.name);
  }
  return missing;
}

ClusterStatus RunCluster::wait_for_hosts(const std::function<void(const SupervisorEvent&)>& react) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kJoinWithin;
  AnnouncedWait announced("the hosts of the run", kJoinWithin);
  while (true) {
    ClusterStatus status = link_->reach(kJoinWithin).head.call<&Head::status>().get();
    const std::vector<std::string> missing = missing_hosts(status);
    if (missing.empty()) return status;
    announced.update(fmt::format("{} to join", fmt::join(missing, ", ")));
    if (clock.now() > give_up) {
      const std::string advice =
          local_
              ? fmt::format("Their logs: {}/agent.NAME.log", local_->log_directory().string())
              : fmt::format("Start each with: weft join {} --name NAME --devices N", head_address_);
      throw_error(ErrorCode::kDeadlineExceeded, "these hosts of {} have not joined: {}. {}",
                  run_.original, fmt::join(missing, ", "), advice);
    }
    if (const auto event = queue_.next(clock.now() + kAskHeadEvery)) react(*event);
  }
}

void RunCluster::report_host_death(const SupervisorEvent& event) {
  const HostDeath death{event.host, event.evidence};
  try {
    const auto head = link_->reach({}).head.within(kHeadToldWithin);
    if (event.evidence.silence_text.empty()) head.tell<&Head::host_died>(death);
    // must precede the loss of its connection, which tells less
    else head.call<&Head::host_died>(death).get();
  } catch (const Error&) {
    unreported_deaths_.push_back(event);  // kept for the next head
  }
}

void RunCluster::repeat_reports() {
  for (const SupervisorEvent& death : std::exchange(unreported_deaths_, {}))
    report_host_death(death);
}

void RunCluster::report_no_driver() {
  try {
    const RunDescription run{machine_name(), std::filesystem::absolute(run_.out)};
    link_->reach({}).head.tell<&Head::driver_given_up>(run.id());
  } catch (const Error&) {
    // A head that is away sees that none comes.
  }
}

}  // namespace weft::actors
