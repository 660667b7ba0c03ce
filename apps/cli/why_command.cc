// weft why.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/why.h"
#include "core/base/terminal.h"

namespace weft::apps {

int run_why(const WhyOptions& options) {
  HeadClient observer(options.cluster, "weft why");
  const auto within = std::chrono::milliseconds(std::llround(options.within * 1000));
  const WaitReport why = survey_waits(observer, options.wanted, within);
  if (options.cluster.json) {
    nlohmann::ordered_json json = {{"runs", why.runs}, {"seconds", why.seconds}};
    json["head_problem"] = why.head_problem;
    json["reservations"] = why.reservations;
    json["about"] = nullptr;
    if (why.about) json["about"] = why.graph.waiters[*why.about].name;
    json.update(to_json(why.graph, why.about));
    say(stdout, "{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  std::string text;
  if (!why.head_problem.empty())
    text += fmt::format("the head does not answer calls: {}\n", why.head_problem);
  for (const std::string& reservation : why.reservations) text += reservation + "\n";
  const std::string found = to_text(why.graph, why.about);
  text += found.empty() ? "no actor waits: there is no run and no call in progress\n" : found;
  say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, text, 2));
  return 0;
}

}  // namespace weft::apps
