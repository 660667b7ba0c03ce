#include "actors/supervision/incident.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::actors {
namespace {

int strength(const ExitReport& evidence) {
  if (!evidence.has_parent_report) return 0;
  return evidence.was_signalled() ? 2 : 1;
}

}  // namespace

std::string ProcessFailure::place() const {
  return device == kNoDevice ? host : fmt::format("{} device {}", host, device);
}

std::string ProcessFailure::describe() const {
  if (is_whole_mesh())
    return fmt::format("mesh {} (epoch {}) failed: {}", mesh, epoch, host_failure);
  std::string text = fmt::format("{} (mesh {}, rank {}) on {} (pid {}, epoch {})", actor, mesh,
                                 rank, place(), pid, epoch);
  if (!host_failure.empty())
    return fmt::format("{} is lost: {}{}", text, host_failure, evidence.log_note());
  return fmt::format("{} {}{}", text, evidence.summary(), evidence.log_note());
}

std::string ProcessFailure::summary() const {
  if (is_whole_mesh()) return describe();
  const std::string text = fmt::format("{} ({}, pid {})", place(), actor, pid);
  return host_failure.empty() ? fmt::format("{} {}", text, evidence.summary())
                              : fmt::format("{} is lost: {}", text, host_failure);
}

std::string Incident::describe() const {
  const ProcessFailure& first = failures.at(first_cause);
  // Actors that share the process of the first one have not failed as a consequence.
  const auto in_process =
      static_cast<std::size_t>(std::ranges::count_if(failures, [&](const ProcessFailure& failure) {
        return first.device == kNoDevice && failure.host == first.host && failure.pid == first.pid;
      }));
  const std::size_t actors = in_process > 1 ? in_process - 1 : 0;
  const std::size_t others = failures.size() - 1 - actors;
  std::string text = first.describe();
  if (actors > 0)
    text += fmt::format("\n  ({} more actor{} of mesh {} ran in this process)", actors,
                        actors == 1 ? "" : "s", mesh);
  if (others > 0)
    text += fmt::format("\n  ({} more process{} of mesh {} failed as a consequence)", others,
                        others == 1 ? "" : "es", mesh);
  return text;
}

std::string Incident::summary() const {
  const ProcessFailure& first = failures.at(first_cause);
  if (first.is_whole_mesh()) return first.describe();
  if (!first.host_failure.empty()) return fmt::format("{}: {}", first.host, first.cause());
  return first.device == kNoDevice
             ? fmt::format("{} (pid {}) {}", first.host, first.pid, first.cause())
             : fmt::format("{} {}", first.place(), first.cause());
}

std::string Incident::process() const {
  const ProcessFailure& first = failures.at(first_cause);
  // The evidence of a lost host is that of its agent.
  return fmt::format("{} {}", first.host, first.evidence.pid);
}

std::string Incident::crash_signature() const {
  const ProcessFailure& first = failures.at(first_cause);
  return first.host_failure.empty() ? first.evidence.crash_signature() : "";
}

IncidentLog::Recorded IncidentLog::record(ProcessFailure failure) {
  for (std::size_t i = 0; i < incidents_.size(); ++i) {
    Incident& incident = incidents_[i];
    if (incident.mesh != failure.mesh || incident.epoch != failure.epoch) continue;
    for (ProcessFailure& known : incident.failures) {
      if (known.rank != failure.rank) continue;
      // Replaces what is known of this death by better evidence.
      if (!known.evidence.has_parent_report && failure.evidence.has_parent_report)
        known = std::move(failure);
      return {incident, false};
    }
    incident.failures.push_back(std::move(failure));
    const std::uint32_t last = incident.failures.size() - 1;
    const bool in_time = clock_.now() - began_[i] <= window_;
    if (in_time && strength(incident.failures[last].evidence) >
                       strength(incident.failures[incident.first_cause].evidence))
      incident.first_cause = last;
    return {incident, false};
  }
  if (incidents_.size() == kKept) {
    incidents_.erase(incidents_.begin());
    began_.erase(began_.begin());
  }
  Incident incident{failure.mesh, failure.epoch, {}, 0};
  incident.failures.push_back(std::move(failure));
  incidents_.push_back(std::move(incident));
  began_.push_back(clock_.now());
  return {incidents_.back(), true};
}

}  // namespace weft::actors
