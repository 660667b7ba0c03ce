#include "actors/supervision/incident.h"

#include <fmt/format.h>

namespace weft::actors {
namespace {

int strength(const ExitReport& evidence) {
  if (!evidence.known) return 0;
  return evidence.violent() ? 2 : 1;
}

}  // namespace

std::string ProcessFailure::describe() const {
  if (is_whole_mesh())
    return fmt::format("mesh {} (epoch {}) is lost: {}", mesh, epoch, host_failure);
  std::string text = fmt::format("{} (mesh {}, rank {}) on {} device {} (pid {}, epoch {})", actor,
                                 mesh, rank, host, device, pid, epoch);
  if (!host_failure.empty())
    return fmt::format("{} is lost: {}{}", text, host_failure, evidence.log_note());
  return fmt::format("{} {}{}", text, evidence.verdict(), evidence.log_note());
}

std::string ProcessFailure::in_short() const {
  if (is_whole_mesh()) return describe();
  const std::string text = fmt::format("{} device {} ({}, pid {})", host, device, actor, pid);
  return host_failure.empty() ? fmt::format("{} {}", text, evidence.verdict())
                              : fmt::format("{} is lost: {}", text, host_failure);
}

std::string Incident::describe() const {
  const std::size_t others = casualties.size() - 1;
  const std::string text = casualties.at(first_cause).describe();
  return others == 0 ? text
                     : fmt::format("{}\n  ({} more of mesh {} fell with it)", text, others, mesh);
}

std::string Incident::in_short() const {
  const ProcessFailure& first = casualties.at(first_cause);
  if (first.is_whole_mesh()) return first.describe();
  return first.host_failure.empty()
             ? fmt::format("{} device {} {}", first.host, first.device, first.cause())
             : fmt::format("{}: {}", first.host, first.cause());
}

std::string Incident::process() const {
  const ProcessFailure& first = casualties.at(first_cause);
  // The evidence of a lost host is that of its agent.
  return fmt::format("{} {}", first.host, first.evidence.pid);
}

std::string Incident::fault() const {
  const ProcessFailure& first = casualties.at(first_cause);
  return first.host_failure.empty() ? first.evidence.fault() : "";
}

IncidentLog::Recorded IncidentLog::record(ProcessFailure casualty) {
  for (std::size_t i = 0; i < incidents_.size(); ++i) {
    Incident& incident = incidents_[i];
    if (incident.mesh != casualty.mesh || incident.epoch != casualty.epoch) continue;
    for (ProcessFailure& known : incident.casualties) {
      if (known.rank != casualty.rank) continue;
      // Replaces what is known of this death by better evidence.
      if (!known.evidence.known && casualty.evidence.known) known = std::move(casualty);
      return {incident, false};
    }
    incident.casualties.push_back(std::move(casualty));
    const std::uint32_t last = incident.casualties.size() - 1;
    const bool in_time = clock_.now() - began_[i] <= window_;
    if (in_time && strength(incident.casualties[last].evidence) >
                       strength(incident.casualties[incident.first_cause].evidence))
      incident.first_cause = last;
    return {incident, false};
  }
  if (incidents_.size() == kKept) {
    incidents_.erase(incidents_.begin());
    began_.erase(began_.begin());
  }
  Incident incident{casualty.mesh, casualty.epoch, {}, 0};
  incident.casualties.push_back(std::move(casualty));
  incidents_.push_back(std::move(incident));
  began_.push_back(clock_.now());
  return {incidents_.back(), true};
}

}  // namespace weft::actors
