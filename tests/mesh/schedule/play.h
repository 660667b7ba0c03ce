#pragma once

#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/simulate.h"

namespace weft::test {

/// Durations of forward, input gradient and weight gradient, over all stages of an actor.
struct Times {
  double f = 1, i = 1, w = 1;
};

/// Simulates a schedule. An actor's stages together take `times` and hold as much memory as one
/// stage of GPipe: 1 from the forward on, and 1 for the weight gradient.
inline mesh::ScheduleSimulation play(const mesh::Schedule& schedule, const Times& times = {},
                                     double transfer = 0) {
  const double part = static_cast<double>(schedule.actors.size()) / schedule.stages;
  return mesh::simulate(schedule, mesh::uniform_costs(schedule.stages,
                                                      {.forward = times.f * part,
                                                       .input_grad = times.i * part,
                                                       .weight_grad = times.w * part,
                                                       .activations = part,
                                                       .for_weight_grad = part},
                                                      transfer));
}

/// Simulates a named schedule.
inline mesh::ScheduleSimulation play(const mesh::ScheduleRequest& request, const Times& times = {},
                                     double transfer = 0) {
  return play(mesh::make_schedule(request), times, transfer);
}

}  // namespace weft::test
