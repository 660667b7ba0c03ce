#include "tests/bench/death/silence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/bench/death/by_hand_cluster.h"
#include "tests/bench/death/run_records.h"

namespace weft::test {
namespace {

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Waits for the head's event that begins with `begins`. Returns the seconds from `since` to the
/// event.
std::optional<double> seconds_until(ByHandCluster& cluster, const std::string& begins,
                                    std::int64_t since) {
  std::optional<double> seconds;
  eventually(
      [&] {
        ::usleep(200'000);  // asking takes CPU too
        const nlohmann::json status = cluster.status();
        if (status.is_null()) return false;
        for (const auto& event : status["events"])
          if (!seconds && event["unix_ms"] >= since &&
              event["text"].get<std::string>().starts_with(begins))
            seconds = (event["unix_ms"].get<std::int64_t>() - since) / 1000.0;
        return seconds.has_value();
      },
      std::chrono::seconds(30));
  return seconds;
}

}  // namespace

int time_silence(int repeats) {
  ByHandCluster cluster("silence", {3, 1, 0});
  std::vector<double> suspect, away;
  for (int i = 0; i < repeats; ++i) {
    const int host = i % 3;
    const std::string name = fmt::format("host worker{} ", host);
    const std::int64_t stopped = unix_ms();
    ::kill(cluster.agent(host), SIGSTOP);
    if (const auto seconds = seconds_until(cluster, name + "may have failed", stopped))
      suspect.push_back(*seconds);
    if (const auto seconds = seconds_until(cluster, name + "does not answer", stopped))
      away.push_back(*seconds);
    const std::int64_t on = unix_ms();
    ::kill(cluster.agent(host), SIGCONT);
    seconds_until(cluster, name + "reconnected", on);
  }
  fmt::print("agent stopped: suspect after {:.1f} s, away after {:.1f} s\n",
             fmt::join(suspect, ", "), fmt::join(away, ", "));
  return 2 * repeats - static_cast<int>(suspect.size() + away.size());
}

int count_false_deaths(int minutes, int loops) {
  ByHandCluster cluster("calm", {2, 2, loops});
  auto& run = cluster.start_run("out", 100'000'000);
  const bool ended = run.wait(std::chrono::minutes(minutes)) >= 0;
  const auto out = cluster.directory() / "out";
  const auto incidents = events_of(out, "incident");
  std::size_t suspects = 0;
  const nlohmann::json status = cluster.status();
  for (const auto& event : status["events"])
    suspects += event["text"].get<std::string>().find(" may have failed") != std::string::npos;
  fmt::print(
      "{} minutes of training beside {} busy loops: {} steps, {} told dead, {} recoveries, {} of "
      "the head's last events call a host suspect\n",
      minutes, loops, losses_of(out).size(), incidents.size(), events_of(out, "recovered").size(),
      suspects);
  for (const auto& incident : incidents) fmt::print("  {}\n", incident.dump());
  if (ended) fmt::print("the run ended:\n{}\n", run.text());
  return static_cast<int>(incidents.size()) + (ended ? 1 : 0);
}

}  // namespace weft::test
