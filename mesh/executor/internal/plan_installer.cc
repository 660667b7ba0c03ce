#include "mesh/executor/internal/plan_installer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "core/base/machine.h"
#include "mesh/executor/memory_forecast.h"
#include "mesh/executor/open_collectives.h"
#include "mesh/plan/observed_network.h"
#include "mesh/plan/plan_memory.h"

namespace weft::mesh {
namespace {

/// Time within which a live device cancels its collectives.
constexpr Nanoseconds kCancelTimeout = std::chrono::seconds(2);

bool same_flows(const Compiled& before, const Compiled& after) {
  return std::ranges::equal(
      before.edges, after.edges,
      [](const PlannedEdge& a, const PlannedEdge& b) { return a.plan.flows == b.plan.flows; });
}

/// Replaces what was compiled by what was compiled before, except for the seconds of transfers
/// between meshes. Both have the same flows.
void keep_programs(Compiled& compiled, Compiled before) {
  for (std::size_t e = 0; e < before.edges.size(); ++e)
    before.edges[e].plan.predicted_seconds = compiled.edges[e].plan.predicted_seconds;
  for (std::size_t t = 0; t < before.terms.size(); ++t)
    before.terms[t].plan.predicted_seconds = compiled.terms[t].plan.predicted_seconds;
  compiled = std::move(before);
}

std::set<transfer::DeviceId> all_devices(std::size_t size) {
  std::set<transfer::DeviceId> devices;
  for (std::uint32_t i = 0; i < size; ++i) devices.insert(transfer::DeviceId(i));
  return devices;
}

}  // namespace

void PlanInstaller::connect() {
  numbering_ = number_devices(layout_, devices_.places());
  driver_.reset();  // closes its connections first
  driver_ = devices_.open(numbering_, device_);
}

void PlanInstaller::make_plan(std::optional<TrainingPlan> planned) {
  PlanConditions conditions = conditions_;
  conditions.device_places = find_gpus();
  const bool fits = planned && planned->hosts == numbering_.hosts &&
                    planned->topology == numbering_.topology &&
                    planned->conditions.device_places == conditions.device_places;
  plan_ = fits ? std::move(*planned)
               : make_training_plan(layout_, model_, devices_.places(), conditions);
  open_communicators(devices_.meshes(), plan_, communicators_);
}

std::vector<transfer::DeviceCapabilities> PlanInstaller::find_gpus() const {
  if (device_.kind != DeviceKind::kCuda && device_.kind != DeviceKind::kAuto) return {};
  std::vector<transfer::DeviceCapabilities> places = collect_device_places(devices_.meshes());
  if (std::ranges::none_of(places, &transfer::DeviceCapabilities::is_gpu)) return {};
  return places;
}

void PlanInstaller::drop_copies_beyond_memory() {
  if (!plan_.snapshots.empty())
    if (auto why = find_short_machine()) drop_snapshots(plan_, std::move(*why));
  if (plan_.copies_checkpoints())
    if (auto why = find_short_machine()) drop_checkpoint_copies(plan_, std::move(*why));
}

void PlanInstaller::drop_copies(const std::string& no_snapshots_reason,
                                const std::string& no_copies_reason) {
  if (!no_snapshots_reason.empty()) drop_snapshots(plan_, no_snapshots_reason);
  if (!no_copies_reason.empty()) drop_checkpoint_copies(plan_, no_copies_reason);
}

std::optional<std::string> PlanInstaller::find_short_machine() const {
  std::map<std::string, MemoryForecast> machines;
  const auto free = devices_.all().call<&DeviceActor::available_memory>().get();
  for (std::uint32_t i = 0; i < free.size(); ++i) {
    const transfer::DeviceId device(i);
    MemoryForecast& machine = machines[devices_.machine_of(device)];
    const std::uint64_t copies =
        checkpoint_copy_bytes(plan_, device) + snapshot_bytes(plan_.snapshots, device);
    machine.copies += copies;
    machine.needed += host_memory(plan_, device) - copies;
    if (free[i]) machine.free = std::min(machine.free.value_or(*free[i]), *free[i]);
  }
  if (const auto here = machines.find(machine_name()); here != machines.end())
    here->second.needed += checkpoint_buffer_bytes(plan_.checkpoint);
  return find_memory_shortage(machines);
}

void PlanInstaller::install_all() {
  checkpoint_ = plan_.checkpoint;
  for (const auto* programs : plan_.all_programs()) install(*programs, nullptr);
}

void PlanInstaller::install(const std::vector<Program>& programs,
                            const std::set<transfer::DeviceId>* devices) {
  std::vector<actors::Future<void>> pending;
  for (const Program& program : programs) {
    if (program.device == plan_.driver()) driver_->install(program);
    else if (devices == nullptr || devices->contains(program.device))
      pending.push_back(devices_.at(program.device).call<&DeviceActor::install>(program));
  }
  for (auto& future : pending) future.get();
}

void PlanInstaller::adapt_plan() {
  communicators_.clear();
  PlanConditions conditions = plan_.conditions;
  conditions.device_places = find_gpus();
  conditions.observed_network.reset();  // It numbers the hosts of the old plan.
  const bool moved = plan_.hosts != numbering_.hosts || plan_.topology != numbering_.topology ||
                     plan_.conditions.device_places != conditions.device_places;
  if (moved) {
    TrainingPlan plan = make_training_plan(plan_.layout, model_, devices_.places(), conditions);
    plan.decisions.inherit(plan_.decisions);
    plan_ = std::move(plan);
    outdated_ = all_devices(devices_.size());
    checkpoint_ = plan_.checkpoint;
  }
  open_communicators(devices_.meshes(), plan_, communicators_);
  for (const auto* programs : plan_.all_programs()) install(*programs, &outdated_);
  outdated_.clear();
}

TrainingPlan PlanInstaller::plan_for(const ParallelConfig& layout) const {
  return make_training_plan(layout, model_, devices_.places(), plan_.conditions);
}

void PlanInstaller::replace_plan(TrainingPlan plan) {
  plan.checkpoint = std::move(plan_.checkpoint);
  plan.checkpoint_copy = std::move(plan_.checkpoint_copy);
  plan.snapshots = std::move(plan_.snapshots);
  plan.decisions.inherit(plan_.decisions);
  plan_ = std::move(plan);
}

void PlanInstaller::switch_to(TrainingPlan plan) {
  open_communicators(devices_.meshes(), plan, communicators_);
  replace_plan(std::move(plan));
  outdated_ = all_devices(devices_.size());
  install(plan_.train.programs);
  install(plan_.validate.programs);
  outdated_.clear();
}

std::string PlanInstaller::replan_for_network(const std::vector<double>& egress_rates) {
  PlanConditions conditions = plan_.conditions;
  conditions.observed_network = observed_network(plan_, egress_rates);
  if (*conditions.observed_network == plan_.network) return "";
  std::string text = describe_change(plan_, *conditions.observed_network);
  TrainingPlan changed = make_training_plan(plan_.layout, model_, devices_.places(), conditions);
  changed.decisions.record({PlanQuestion::kNetwork, "the observed link rates", text});
  if (same_flows(plan_.train, changed.train) && same_flows(plan_.validate, changed.validate)) {
    // The devices keep their programs.
    keep_programs(changed.train, std::move(plan_.train));
    keep_programs(changed.validate, std::move(plan_.validate));
    changed.collectives = std::move(plan_.collectives);
    replace_plan(std::move(changed));
    return "";
  }
  switch_to(std::move(changed));
  return text + "; transfers were planned again";
}

void PlanInstaller::cancel_collectives(const Error& why) {
  if (communicators_.size() == 0) return;
  for (const auto& mesh : devices_.meshes()) {
    try {
      mesh.within(kCancelTimeout)
          .call_collect<&DeviceActor::cancel_collectives>("the run has failed: " + why.message())
          .get();
    } catch (const Error&) {
      continue;  // No actor of this mesh answers; `why` says more.
    }
  }
}

}  // namespace weft::mesh
