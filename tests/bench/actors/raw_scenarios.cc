#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "tests/bench/actor_call/call_times.h"
#include "tests/bench/actor_call/raw_tcp.h"
#include "tests/bench/actor_call/server_process.h"
#include "tests/bench/actors/scenarios.h"

namespace weft {
namespace {

using nlohmann::json;

/// Messages that are sent before their replies are read.
constexpr int kBatch = 1000;

void serve_message(int listening_socket) { serve_raw(listening_socket, HandOver::kNone); }

/// Returns the work of a ServerProcess that serves one connection.
auto serve_with(void (*serve)(int listening_socket)) {
  return [serve](const auto& tell_port) {
    const Listening listening = listen_on_loopback();
    tell_port(listening.port);
    serve(listening.socket);
  };
}

json raw_call(const ScenarioOptions& options) {
  const ServerProcess server(serve_with(serve_message));
  RawClient client(server.port(), HandOver::kNone);
  const Latency latency = time_calls(options.calls, [&] { client.round_trip(); });
  return {{"median_us", latency.median_us}, {"p99_us", latency.p99_us}};
}

json raw_pipelined(const ScenarioOptions& options) {
  const ServerProcess server(serve_with(serve_raw_stream));
  RawClient client(server.port(), HandOver::kNone);
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  int sent = 0;
  for (; sent < options.pipelined; sent += kBatch) {
    for (int i = 0; i < kBatch; ++i) client.send(1);
    client.receive(kBatch);
  }
  return {{"calls_per_second", sent / in_seconds(clock.now() - begin)}};
}

/// Calls processes that are all connected to this one, and waits for all replies.
json raw_gather(const ScenarioOptions& options) {
  std::deque<ServerProcess> servers;
  while (std::ssize(servers) < options.actors) servers.emplace_back(serve_with(serve_message));
  std::deque<RawClient> clients;
  for (const ServerProcess& server : servers) clients.emplace_back(server.port(), HandOver::kNone);
  const Latency latency = time_calls(options.rounds, [&] {
    for (RawClient& client : clients) client.send(1);
    for (RawClient& client : clients) client.receive(1);
  });
  return {{"median_us", latency.median_us}, {"actors", options.actors}};
}

/// Processes to which a process of a raw tree is connected, at most.
constexpr int kFanOut = 16;

/// Branches of one process of a tree: servers that serve their branches in turn.
class RawTree final {
 public:
  /// `begin`, `end`: positions of the processes below this one. Blocks are those of calls of a
  /// mesh: their size is the smallest power of two that is enough.
  RawTree(int begin, int end, const RawSizes& sizes) : sizes_(sizes) {
    int size = 1;
    while (begin < end && (end - 1) / size - begin / size >= kFanOut) size *= 2;
    while (begin < end) {
      const int next = std::min(end, (begin / size + 1) * size);
      servers_.emplace_back([begin, next, sizes](const auto& tell_port) {
        const RawTree below(begin + 1, next, sizes);
        const Listening listening = listen_on_loopback();
        tell_port(listening.port);
        serve_raw_relay(listening.socket, below.branches_, sizes);
      });
      clients_.emplace_back(servers_.back().port(), HandOver::kNone);
      branches_.push_back({clients_.back(), next - begin});
      begin = next;
    }
  }
  /// Calls all processes and waits for their replies.
  void call() const {
    const std::vector<char> request(sizes_.request);
    for (const RawBranch& branch : branches_) branch.client.send(request);
    for (const RawBranch& branch : branches_) {
      std::vector<char> replies(static_cast<std::size_t>(sizes_.sums ? 1 : branch.processes) *
                                sizes_.reply);
      branch.client.receive(replies);
    }
  }

 private:
  const RawSizes sizes_;
  std::deque<ServerProcess> servers_;
  std::deque<RawClient> clients_;
  std::vector<RawBranch> branches_;
};

json time_tree(int processes, int rounds, const RawSizes& sizes) {
  const RawTree tree(0, processes, sizes);
  const Latency latency = time_calls(rounds, [&] { tree.call(); });
  return {{"median_us", latency.median_us}, {"actors", processes}};
}

/// Calls the same processes over a tree.
json raw_tree(const ScenarioOptions& options) {
  return time_tree(options.actors, options.rounds, {});
}

json raw_send(const ScenarioOptions& options) {
  return time_tree(options.actors, options.large_rounds, {.request = kLargeBytes});
}

/// The sum is that of the first branches of the tree. Its caller adds at most 16 replies more.
json raw_reduce(const ScenarioOptions& options) {
  return time_tree(options.reduced, options.large_rounds, {.reply = kLargeBytes, .sums = true});
}

using RawScenario = json (*)(const ScenarioOptions&);
const std::map<std::string, RawScenario> kRawScenarios = {
    {"raw_call", raw_call}, {"raw_pipelined", raw_pipelined}, {"raw_gather", raw_gather},
    {"raw_tree", raw_tree}, {"raw_send", raw_send},           {"raw_reduce", raw_reduce}};

}  // namespace

std::vector<std::string> raw_scenarios() {
  std::vector<std::string> names;
  for (const auto& [name, run] : kRawScenarios) names.push_back(name);
  return names;
}

json run_raw_scenario(const std::string& name, const ScenarioOptions& options) {
  return kRawScenarios.at(name)(options);
}

}  // namespace weft
