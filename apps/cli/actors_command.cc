// weft actors, weft actors stop.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "apps/cluster_view/actor_name.h"
#include "apps/cluster_view/actor_table.h"
#include "apps/cluster_view/head_client.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

using actors::Head;

/// Longer than the head waits for the owner of the actors.
constexpr auto kStopWithin = std::chrono::seconds(45);
constexpr auto kErrors = nlohmann::json::error_handler_t::replace;

void print_table(const std::vector<ActorRow>& rows) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const int columns = terminal ? terminal_at(STDOUT_FILENO).columns : 0;
  say(stdout, "{}",
      wrapped_for_terminal(STDOUT_FILENO, actors_text(rows, static_cast<std::size_t>(columns)), 5));
}

int stop_actors(const ActorsOptions& options, HeadClient& observer) {
  const auto runs = observer.head().call<&Head::runs>().get();
  const auto named = observer.head().call<&Head::actors>().get();
  const auto stopped = find_actors(named, runs, options.stopped);
  observer.head().within(kStopWithin).call<&Head::stop_actors>(options.stopped).get();
  if (options.cluster.json) {
    nlohmann::ordered_json line = {{"stopped", nlohmann::ordered_json::array()}};
    for (const actors::ActorStatus& actor : stopped) line["stopped"].push_back(full_name(actor));
    say(stdout, "{}\n", line.dump(-1, ' ', false, kErrors));
    return 0;
  }
  const std::string what = stopped.size() == 1
                               ? full_name(stopped.front())
                               : fmt::format("{}: {} actors", options.stopped, stopped.size());
  say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, fmt::format("stopped {}\n", what)));
  return 0;
}

}  // namespace

int run_actors(const ActorsOptions& options) {
  HeadClient observer(options.cluster, "weft actors");
  if (options.stops) return stop_actors(options, observer);
  const auto within = std::chrono::milliseconds(std::llround(options.within * 1000));
  const std::vector<ActorRow> rows = list_actors(observer, within);
  if (options.cluster.json) say(stdout, "{}\n", actors_json(rows).dump(2, ' ', false, kErrors));
  else print_table(rows);
  return 0;
}

}  // namespace weft::apps
