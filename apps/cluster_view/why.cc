#include "apps/cluster_view/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "actors/supervision/process_platform.h"
#include "actors/supervision/stopped_process.h"
#include "apps/cluster_view/log_view.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

using actors::Head;
using actors::Member;
using actors::ProcessId;
using actors::ProcessSurvey;
using actors::RunRecord;
using actors::SurveyTarget;

constexpr auto kHeadAnswersWithin = std::chrono::milliseconds(500);

/// Describes a process of this machine that does not respond.
std::string local_diagnosis(std::int64_t pid, const std::string& machine) {
  if (pid <= 0 || machine != machine_name()) return "";
  const auto process = static_cast<pid_t>(pid);
  if (!actors::process_exists(process)) return "it has ended";
  const auto stopped = actors::find_stopped_thread(process);
  if (!stopped) return "";
  return stopped->is_main_thread
             ? fmt::format("it is stopped (state {})", stopped->state)
             : fmt::format("its thread {} is stopped (state {})", stopped->name, stopped->state);
}

std::string joined(const std::string& one, const std::string& other) {
  return one.empty() || other.empty() ? one + other : one + "; " + other;
}

/// Returns the processes of each mesh's newest epoch.
std::vector<actors::RunDevice> present_devices(const RunRecord& run) {
  std::map<std::string, std::uint64_t> newest;
  for (const auto& device : run.devices)
    newest[device.mesh.name] = std::max(newest[device.mesh.name], device.mesh.epoch);
  std::vector<actors::RunDevice> devices;
  for (const auto& device : run.devices)
    if (device.mesh.epoch == newest[device.mesh.name]) devices.push_back(device);
  return devices;
}

class SurveyBuilder final {
 public:
  SurveyBuilder(HeadClient& observer, Nanoseconds within) : observer_(observer), within_(within) {}

  void add_head() {
    names_.push_back({observer_.process().id, "head", to_string(observer_.process().address)});
    targets_.push_back({observer_.process().id});
  }
  void add_member(const Member& member) {
    names_.push_back({member.agent.id, "agent of " + member.name,
                      fmt::format("pid {} on {}", member.pid, member.machine), false, 0,
                      member.unreachable_note});
    seen_[member.agent.id] = {member.pid, member.machine};
    machines_[member.name] = member.machine;
    agents_[member.name] = targets_.size();
    targets_.push_back({member.agent.id});
  }
  void add_run(const RunRecord& run) {
    const std::string& machine = run.description.machine;
    names_.push_back({run.process.id, "driver of " + run.name,
                      fmt::format("pid {}{}", run.pid, machine.empty() ? "" : " on " + machine),
                      true, run.number, ""});
    seen_[run.process.id] = {run.pid, machine};
    const std::size_t driver = targets_.size();
    targets_.push_back({run.process.id});
    for (const actors::RunDevice& device : present_devices(run)) {
      names_.push_back(
          {device.process.id, device.label,
           fmt::format("{} device {}, pid {}", device.place.host, device.place.device, device.pid),
           false, run.number, ""});
      drivers_[device.process.id] = driver;
      seen_[device.process.id] = {device.pid, machines_[device.place.host]};
      const auto agent = agents_.find(device.place.host);
      targets_[agent == agents_.end() ? driver : agent->second].forward_to.push_back(
          device.process.id);
    }
  }

  WaitGraph ask() {
    std::vector<ProcessSurvey> answers = survey(targets_);
    // Asks the driver of each device whose agent got no answer.
    std::set<ProcessId> missing;
    for (const auto& [device, driver] : drivers_) missing.insert(device);
    for (const ProcessSurvey& answer : answers)
      if (answer.problem.empty() || has_a_verdict(answer)) missing.erase(answer.process.id);
    std::map<std::size_t, SurveyTarget> again;
    for (const ProcessId device : missing) {
      SurveyTarget& target = again[drivers_.at(device)];
      target.process = targets_[drivers_.at(device)].process;
      target.forward_to.push_back(device);
    }
    if (!again.empty()) {
      std::vector<SurveyTarget> targets;
      for (auto& [driver, target] : again) targets.push_back(std::move(target));
      for (ProcessSurvey& answer : survey(targets)) answers.push_back(std::move(answer));
    }
    for (ProcessLabel& name : names_) {
      const auto seen = seen_.find(name.process);
      const bool silent = std::ranges::any_of(answers, [&](const ProcessSurvey& answer) {
        return answer.process.id == name.process && !answer.problem.empty();
      });
      if (silent && seen != seen_.end())
        name.diagnosis =
            joined(name.diagnosis, local_diagnosis(seen->second.first, seen->second.second));
    }
    return WaitGraph::of(answers, names_);
  }

 private:
  static bool has_a_verdict(const ProcessSurvey& answer) {
    return answer.problem.find(": ") != std::string::npos;
  }
  std::vector<ProcessSurvey> survey(const std::vector<SurveyTarget>& targets) {
    const actors::SurveyRequest request{targets, within_.count()};
    return observer_.system()
        .survey(observer_.process(), request, within_ + std::chrono::seconds(1))
        .get();
  }

  HeadClient& observer_;
  const Nanoseconds within_;
  std::vector<ProcessLabel> names_;
  std::vector<SurveyTarget> targets_;
  std::map<std::string, std::size_t> agents_;    // host to index of its agent in targets_
  std::map<std::string, std::string> machines_;  // host to machine
  std::map<ProcessId, std::size_t> drivers_;     // device process to index of its driver in
                                                 // targets_
  std::map<ProcessId, std::pair<std::int64_t, std::string>> seen_;  // pid and machine
};

/// Finds a waiter by name.
std::optional<std::size_t> find_waiter(const WaitGraph& graph, const std::string& wanted) {
  for (std::size_t i = 0; i < graph.waiters.size(); ++i) {
    const std::string& name = graph.waiters[i].name;
    if (name == wanted || name == "agent of " + wanted || short_label(name) == short_label(wanted))
      return i;
  }
  return std::nullopt;
}

}  // namespace

WaitReport survey_waits(HeadClient& observer, const std::string& wanted, Nanoseconds within) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  WaitReport why;
  std::vector<RunRecord> runs;
  std::vector<Member> members;
  try {
    const auto head = observer.head().within(kHeadAnswersWithin);
    auto asked = head.call<&Head::members>();
    runs = head.call<&Head::runs>().get();
    members = asked.get();
  } catch (const Error& error) {
    why.head_problem = error.message();
  }
  std::erase_if(runs, [](const RunRecord& run) { return run.ended(); });
  const std::string name = wanted.starts_with("run ") ? wanted.substr(4) : wanted;
  const auto run = std::ranges::find(runs, name, &RunRecord::name);
  const bool one_run = !wanted.empty() && run != runs.end();
  if (one_run) runs = {RunRecord(*run)};
  std::set<std::string> hosts;
  for (const RunRecord& each : runs) {
    why.runs.push_back(each.name);
    for (const auto& device : each.devices) hosts.insert(device.place.host);
  }
  SurveyBuilder questions(observer, within);
  questions.add_head();
  for (const Member& member : members)
    if (!one_run || hosts.contains(member.name)) questions.add_member(member);
  for (const RunRecord& each : runs) questions.add_run(each);
  why.graph = questions.ask();
  why.seconds = in_seconds(clock.now() - begin);
  if (wanted.empty() || one_run) return why;
  why.about = find_waiter(why.graph, wanted);
  if (why.about) return why;
  std::vector<std::string> names = why.runs;
  for (const WaitNode& waiter : why.graph.waiters) names.push_back(waiter.name);
  throw_error(ErrorCode::kNotFound,
              "nothing that runs in this cluster is called '{}'{}; weft status shows runs and "
              "devices",
              wanted, did_you_mean(wanted, names));
}

}  // namespace weft::apps
