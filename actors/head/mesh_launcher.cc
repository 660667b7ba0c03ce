#include "actors/head/mesh_launcher.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kLaunchWithin = std::chrono::seconds(30);
constexpr std::size_t kConcurrentStartsPerProcessor = 2;

/// Launches of one machine, in turns. No more devices start at once than its processors can handle:
/// a thousand starting processes would delay the heartbeats of running ones.
class MachineLaunchQueue final {
 public:
  using Answer = Future<std::vector<DeviceProcess>>;

  void add(std::uint32_t processors, ActorRef<Agent> agent, LaunchRequest request) {
    limit_ = std::max<std::size_t>(limit_, kConcurrentStartsPerProcessor * processors);
    waiting_.push_back({std::move(agent), std::move(request)});
  }
  void begin() {
    while (!waiting_.empty() &&
           (starting_ == 0 || starting_ + devices(waiting_.front()) <= limit_)) {
      WaitingLaunch& turn = waiting_.front();
      starting_ += devices(turn);
      under_way_.emplace_back(devices(turn),
                              turn.agent.within(kLaunchWithin).call<&Agent::launch>(turn.request));
      waiting_.pop_front();
    }
  }
  /// Returns the oldest launch under way, or nothing when all are done. Await it before the next
  /// call.
  std::optional<Answer> next() {
    starting_ -= std::exchange(awaited_, 0);
    begin();
    if (under_way_.empty()) return std::nullopt;
    awaited_ = under_way_.front().first;
    std::optional<Answer> answer(std::move(under_way_.front().second));
    under_way_.pop_front();
    return answer;
  }
  /// Drops launches that have not begun.
  void drop() { waiting_.clear(); }

 private:
  struct WaitingLaunch {
    ActorRef<Agent> agent;
    LaunchRequest request;
  };
  static std::size_t devices(const WaitingLaunch& turn) { return turn.request.devices.size(); }

  std::size_t limit_ = 0;
  std::size_t starting_ = 0;
  std::size_t awaited_ = 0;
  std::deque<WaitingLaunch> waiting_;
  std::deque<std::pair<std::size_t, Answer>> under_way_;
};

}  // namespace

task<std::vector<DeviceProcess>> MeshLauncher::launch(
    const MeshKey& key, const MeshTable::Mesh& mesh,
    const std::vector<std::uint32_t>& ranks) const {
  Requests requests;
  for (const std::uint32_t rank : ranks) {
    LaunchRequest& request = requests[mesh.places[rank].host];
    request.key = key;
    request.term = term_;
    request.binary = mesh.request.binary;
    request.binary_sha256 = mesh.request.binary_sha256;
    request.environment = mesh.request.environment;
    request.memory_cap = mesh.request.memory_cap;
    request.owner = mesh.owner;
    request.run = mesh.request.run;
    request.is_shared_process = mesh.is_shared_process;
    request.devices.push_back({rank, mesh.places[rank].device, actor_label(mesh.request, rank)});
  }
  return launch_all(std::move(requests));
}

task<std::vector<DeviceProcess>> MeshLauncher::launch_all(Requests requests) const {
  std::map<std::string, MachineLaunchQueue> turns;  // Launches by machine.
  for (auto& [name, request] : requests) {
    const HostTable::Host& host = hosts_.all().at(name);
    turns[host.offer.machine].add(host.offer.processors, system_.named<Agent>(host.agent, "agent"),
                                  std::move(request));
  }
  for (auto& [machine, waiting] : turns) waiting.begin();
  std::vector<DeviceProcess> processes;
  std::optional<Error> failure;
  for (bool more = true; more;) {
    more = false;
    for (auto& [machine, waiting] : turns) {
      auto next = waiting.next();
      if (!next) continue;
      more = true;
      MachineLaunchQueue::Answer& answer = *next;
      try {
        const std::vector<DeviceProcess> started = co_await answer;
        processes.insert(processes.end(), started.begin(), started.end());
      } catch (...) {
        if (!failure) failure = current_error();
      }
      if (failure)
        for (auto& [other, rest] : turns) rest.drop();
    }
  }
  if (failure) throw *failure;
  co_return processes;
}

}  // namespace weft::actors
