// weft runs, weft events, weft cancel.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/run_text.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

using actors::ClusterEvents;
using actors::EventsRequest;
using actors::Head;

constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr std::uint32_t kEventsAtOnce = 1000;

std::int64_t now_unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void print_events(const ClusterEvents& answer, bool json) {
  for (const actors::ClusterEvent& event : answer.events) {
    if (json) {
      const nlohmann::ordered_json line = {{"unix_ms", event.unix_ms}, {"text", event.text}};
      say(stdout, "{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      say(stdout, "{}",
          wrapped_for_terminal(
              STDOUT_FILENO,
              fmt::format("{}  {}\n", time_text(event.unix_ms), first_line(event.text)), 21));
    }
  }
  std::fflush(stdout);
}

}  // namespace

int run_runs(const ConnectOptions& options) {
  HeadClient observer(options, "weft runs");
  const auto runs = observer.head().call<&Head::runs>().get();
  if (options.json) say(stdout, "{}\n", runs_json(runs).dump(2));
  else
    say(stdout, "{}",
        wrapped_for_terminal(STDOUT_FILENO,
                             runs_text(runs, now_unix_ms(), std::filesystem::current_path()), 5));
  return 0;
}

int run_events(const EventsOptions& options) {
  HeadClient observer(options.cluster, "weft events");
  EventsRequest request{std::nullopt, options.last};
  // The requested number may exceed one answer.
  if (request.limit > kEventsAtOnce) {
    const auto count = observer.head().call<&Head::events>(EventsRequest{{}, 0}).get().last;
    request.after = count - std::min<std::uint64_t>(options.last, count);
  }
  for (bool begun = false;; begun = true) {
    const auto answer = observer.call_with_retry([&](const actors::ActorRef<Head>& head) {
      return head.call<&Head::events>(request).get();
    });
    print_events(answer, options.cluster.json);
    const bool all = request.after ? answer.events.empty() : true;
    request = {answer.last, kEventsAtOnce};
    if (all && !options.follow) return 0;
    if (all && begun) observer.wait(kLookEvery);
  }
}

int run_cancel(const CancelOptions& options) {
  HeadClient observer(options.cluster, "weft cancel");
  const auto runs = observer.head().call<&Head::runs>().get();
  const actors::RunRecord& run = find_run(runs, options.run);
  const std::string doing = observer.head().call<&Head::cancel_run>(run.number, options.now).get();
  if (options.cluster.json) {
    const nlohmann::ordered_json line = {
        {"run", run.name}, {"number", run.number}, {"at_once", options.now}, {"doing", doing}};
    say(stdout, "{}\n", line.dump());
  } else {
    say(stdout, "run '{}' (pid {}): {}\n", run.name, run.pid, doing);
  }
  return 0;
}

}  // namespace weft::apps
