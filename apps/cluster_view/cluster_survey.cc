#include "apps/cluster_view/cluster_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "actors/supervision/process_platform.h"
#include "actors/supervision/stopped_process.h"
#include "apps/cluster_view/log_view.h"
#include "core/base/machine.h"

namespace weft::apps {
namespace {

using actors::Member;
using actors::ProcessId;
using actors::ProcessSurvey;
using actors::RunDevice;
using actors::RunRecord;
using actors::SurveyTarget;

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
std::vector<RunDevice> present_devices(const RunRecord& run) {
  std::map<std::string, std::uint64_t> newest;
  for (const auto& device : run.devices)
    newest[device.mesh.name] = std::max(newest[device.mesh.name], device.mesh.epoch);
  std::vector<RunDevice> devices;
  for (const auto& device : run.devices)
    if (device.mesh.epoch == newest[device.mesh.name]) devices.push_back(device);
  return devices;
}

bool has_a_verdict(const ProcessSurvey& answer) {
  return answer.problem.find(": ") != std::string::npos;
}

}  // namespace

std::map<ProcessId, ProcessSurvey> SurveyedProcesses::merged() const {
  const auto rank = [](const ProcessSurvey& answer) {
    if (answer.problem.empty()) return 2;
    return has_a_verdict(answer) ? 1 : 0;
  };
  std::map<ProcessId, ProcessSurvey> merged;
  for (const ProcessSurvey& answer : answers) {
    const auto [known, is_new] = merged.try_emplace(answer.process.id, answer);
    if (!is_new && rank(answer) > rank(known->second)) known->second = answer;
  }
  for (const ProcessLabel& name : names) {
    const auto known = merged.find(name.process);
    if (known != merged.end() && !known->second.problem.empty())
      known->second.problem = with_diagnosis(known->second.problem, name.diagnosis);
  }
  return merged;
}

void ClusterSurvey::add_head() {
  names_.push_back({observer_.process().id, "head", to_string(observer_.process().address)});
  targets_.push_back({observer_.process().id});
}

void ClusterSurvey::add_member(const Member& member) {
  names_.push_back({member.agent.id, "agent of " + member.name,
                    fmt::format("pid {} on {}", member.pid, member.machine), false, 0,
                    member.unreachable_note});
  seen_[member.agent.id] = {member.pid, member.machine};
  machines_[member.name] = member.machine;
  agents_[member.name] = targets_.size();
  targets_.push_back({member.agent.id});
}

void ClusterSurvey::add_run(const RunRecord& run) {
  const std::string& machine = run.description.machine;
  names_.push_back({run.process.id, "driver of " + run.name,
                    fmt::format("pid {}{}", run.pid, machine.empty() ? "" : " on " + machine), true,
                    run.number, ""});
  seen_[run.process.id] = {run.pid, machine};
  const std::size_t driver = targets_.size();
  targets_.push_back({run.process.id});
  for (const RunDevice& device : present_devices(run)) {
    // Actors of a shared process have one process.
    if (!drivers_.emplace(device.process.id, driver).second) continue;
    const auto agent = agents_.find(device.place.host);
    names_.push_back(
        {device.process.id,
         is_shared_process(device) ? "shared process on " + device.place.host : device.label,

         fmt::format("{}, pid {}", device.place.text(), device.pid), false, run.number, ""});
    seen_[device.process.id] = {device.pid, machines_[device.place.host]};
    targets_[agent == agents_.end() ? driver : agent->second].forward_to.push_back(
        device.process.id);
  }
}

void ClusterSurvey::add_actor(const actors::ActorStatus& actor) {
  const auto agent = agents_.find(actor.host);
  if (agent == agents_.end()) return;
  names_.push_back({actor.address.process.id, actor.label,
                    fmt::format("{}, pid {}", actor.host, actor.pid), false, 0, ""});
  seen_[actor.address.process.id] = {actor.pid, machines_[actor.host]};
  targets_[agent->second].forward_to.push_back(actor.address.process.id);
}

SurveyedProcesses ClusterSurvey::ask() {
  SurveyedProcesses found{survey(targets_), names_};
  std::vector<ProcessSurvey>& answers = found.answers;
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
  for (ProcessLabel& name : found.names) {
    const auto seen = seen_.find(name.process);
    const bool silent = std::ranges::any_of(answers, [&](const ProcessSurvey& answer) {
      return answer.process.id == name.process && !answer.problem.empty();
    });
    if (silent && seen != seen_.end())
      name.diagnosis =
          joined(name.diagnosis, local_diagnosis(seen->second.first, seen->second.second));
  }
  return found;
}

std::vector<ProcessSurvey> ClusterSurvey::survey(const std::vector<SurveyTarget>& targets) {
  const actors::SurveyRequest request{targets, within_.count()};
  return observer_.system()
      .survey(observer_.process(), request, within_ + std::chrono::seconds(1))
      .get();
}

}  // namespace weft::apps
