#include "apps/cluster_view/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "apps/cluster_view/actor_name.h"
#include "apps/cluster_view/cluster_survey.h"
#include "apps/cluster_view/log_view.h"
#include "apps/cluster_view/resource_text.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

using actors::Head;
using actors::Member;
using actors::RunRecord;

constexpr auto kHeadAnswersWithin = std::chrono::milliseconds(500);

/// Waiter that a user asks for.
struct WantedWaiter {
  std::string name;
  std::optional<std::uint64_t> group;  // number of its run; 0: it belongs to the cluster
};

/// Understands "front[0,1]", "cluster/hits", and "quickstart/front[0,1]" if such a run is active.
WantedWaiter wanted_waiter(const std::string& text, const std::vector<RunRecord>& runs) {
  const ActorName name = ActorName::of(text);
  for (const RunRecord& run : runs)
    if (!name.run.empty() && (run.name == name.run || std::to_string(run.number) == name.run))
      return {name.label, run.number};
  if (name.run == actors::kKeeperName) return {name.label, 0};
  return {text, std::nullopt};
}

/// Finds a waiter by name, or the only one of a mesh. Throws Error(kInvalidArgument) for a larger
/// mesh.
std::optional<std::size_t> find_waiter(const WaitGraph& graph, const WantedWaiter& wanted) {
  std::vector<std::size_t> mesh;
  for (std::size_t i = 0; i < graph.waiters.size(); ++i) {
    const WaitNode& waiter = graph.waiters[i];
    if (wanted.group && waiter.group != *wanted.group) continue;
    if (waiter.name == wanted.name || waiter.name == "agent of " + wanted.name ||
        short_label(waiter.name) == short_label(wanted.name))
      return i;
    if (waiter.name.starts_with(wanted.name + "[")) mesh.push_back(i);
  }
  if (mesh.size() > 1)
    throw_error(ErrorCode::kInvalidArgument, "'{}' is a mesh of {} actors; give one, such as '{}'",
                wanted.name, mesh.size(), graph.waiters[mesh.front()].name);
  return mesh.empty() ? std::nullopt : std::optional(mesh.front());
}

}  // namespace

WaitReport survey_waits(HeadClient& observer, const std::string& wanted, Nanoseconds within) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  WaitReport why;
  std::vector<RunRecord> runs;
  std::vector<Member> members;
  std::vector<actors::ActorStatus> named;
  std::vector<actors::ReservationStatus> reservations;
  try {
    const auto head = observer.head().within(kHeadAnswersWithin);
    auto asked = head.call<&Head::members>();
    auto listed = head.call<&Head::actors>();
    auto status = head.call<&Head::status>();
    runs = head.call<&Head::runs>().get();
    members = asked.get();
    named = listed.get();
    reservations = status.get().reservations;
  } catch (const Error& error) {
    why.head_problem = error.message();
  }
  std::erase_if(runs, [](const RunRecord& run) { return run.ended(); });
  const std::string name = wanted.starts_with("run ") ? wanted.substr(4) : wanted;
  const auto run = std::ranges::find(runs, name, &RunRecord::name);
  const bool one_run = !wanted.empty() && run != runs.end();
  if (one_run) runs = {RunRecord(*run)};
  for (const actors::ReservationStatus& each : reservations)
    if (each.waiting && (!one_run || each.owner == "run " + name))
      why.reservations.push_back(waiting_text(each));
  std::set<std::string> hosts;
  for (const RunRecord& each : runs) {
    why.runs.push_back(each.name);
    for (const auto& device : each.devices) hosts.insert(device.place.host);
  }
  ClusterSurvey questions(observer, within);
  questions.add_head();
  for (const Member& member : members)
    if (!one_run || hosts.contains(member.name)) questions.add_member(member);
  for (const RunRecord& each : runs) questions.add_run(each);
  for (const actors::ActorStatus& actor : named)
    if (!one_run && actor.run.empty()) questions.add_actor(actor);
  const SurveyedProcesses surveyed = questions.ask();
  why.graph = WaitGraph::of(surveyed.answers, surveyed.names);
  why.seconds = in_seconds(clock.now() - begin);
  if (wanted.empty() || one_run) return why;
  why.about = find_waiter(why.graph, wanted_waiter(wanted, runs));
  if (why.about) return why;
  std::vector<std::string> names = why.runs;
  for (const WaitNode& waiter : why.graph.waiters) names.push_back(waiter.name);
  throw_error(ErrorCode::kNotFound,
              "nothing that runs in this cluster is called '{}'{}; weft status shows runs and "
              "devices",
              wanted, did_you_mean(wanted, names));
}

}  // namespace weft::apps
