#include <algorithm>

#include "transfer/flow/internal/fluid_simulation.h"
#include "transfer/flow/internal/run_chooser.h"

namespace weft::transfer::internal {

double FluidSimulation::sent_by_root(std::uint32_t flow) const {
  double sent = 0;
  for (const std::uint32_t id : edges_of_[flow]) {
    if (edges_[id].feeder == FluidEdge::kNone) sent = std::max(sent, edges_[id].sent);
  }
  return sent;
}

void FluidSimulation::choose_runs(RunChooser& chooser, double smallest_bytes, bool reconsider_all) {
  std::vector<double> left(capacity_.size());
  std::vector<bool> finished(chosen_.size(), true), must_continue(chosen_.size());
  for (const FluidEdge& edge : edges_) {
    if (edge.done) continue;
    left[2 * edge.from] += (edge.bytes - edge.sent) / capacity_[2 * edge.from];
    left[2 * edge.to + 1] += (edge.bytes - edge.sent) / capacity_[2 * edge.to + 1];
    if (edge.feeder != FluidEdge::kNone) continue;
    finished[edge.flow] = false;
    if (!chosen_[edge.flow]) continue;
    const double sent = sent_by_root(edge.flow);
    must_continue[edge.flow] = sent - runs_[run_of_[edge.flow]].begin < smallest_bytes ||
                               edge.bytes - sent < smallest_bytes;
  }
  const std::vector<bool> before = std::move(chosen_);
  chosen_.assign(before.size(), false);
  std::vector<DeviceId> root(chosen_.size());
  for (const RunChooser::Choice& choice :
       chooser.choose(left, finished, must_continue, reconsider_all)) {
    chosen_[choice.flow] = true;
    root[choice.flow] = choice.root;
  }
  for (std::uint32_t flow = 0; flow < chosen_.size(); ++flow) {
    const bool goes_on = before[flow] && chosen_[flow] && runs_[run_of_[flow]].root == root[flow];
    if (before[flow] && !goes_on) runs_[run_of_[flow]].end = sent_by_root(flow);
    if (goes_on || !chosen_[flow]) continue;
    run_of_[flow] = runs_.size();
    const double begin = sent_by_root(flow);
    runs_.push_back({flow, root[flow], begin, begin});
  }
}

PreemptiveSchedule FluidSimulation::schedule(std::span<const Flow> all,
                                             std::span<const std::vector<DeviceId>> roots,
                                             const Topology& topology,
                                             const PreemptOptions& preempt) {
  scheduling_ = true;
  const std::size_t flows = result_.flow_seconds.size();
  edges_of_.resize(flows);
  for (std::uint32_t id = 0; id < edges_.size(); ++id) edges_of_[edges_[id].flow].push_back(id);
  chosen_.resize(flows);
  run_of_.resize(flows);
  std::vector<std::size_t> slots;
  for (const SendingDevice& device : devices_) slots.push_back(device.slots);
  RunChooser chooser(all, roots, topology, capacity_, slots, preempt);
  double decided = -preempt.step_seconds;
  std::size_t unfinished = unfinished_ + 1;
  while (unfinished_ > 0) {
    const bool reconsider_all = now_ >= decided + preempt.step_seconds * (1 - 1e-9);
    if (reconsider_all || unfinished_ < unfinished) {
      choose_runs(chooser, preempt.smallest_bytes, reconsider_all);
      if (reconsider_all) decided = now_;
      unfinished = unfinished_;
    }
    step(decided + preempt.step_seconds);
  }
  for (std::uint32_t flow = 0; flow < flows; ++flow) {
    if (chosen_[flow]) runs_[run_of_[flow]].end = sent_by_root(flow);
    // inside a host: takes no time
    if (edges_of_[flow].empty()) runs_.push_back({flow, all[flow].root, 0, 0});
  }
  return {std::move(runs_), result_.steps + chooser.steps()};
}

}  // namespace weft::transfer::internal
