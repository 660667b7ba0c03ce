#pragma once

#include <cstdint>
#include <optional>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Bytes that a device holds under the plan: parameters, gradients, moments, activations, staging
/// of what it exchanges with other GPUs, and, unless it is a GPU, copies for checkpoints and for
/// recovery, which lie in the host's memory.
std::uint64_t device_memory(const TrainingPlan& plan, transfer::DeviceId device);

/// Bytes of what a device holds that lie in its host's memory: all of them, or a GPU's copies for
/// checkpoints.
std::uint64_t host_memory(const TrainingPlan& plan, transfer::DeviceId device);

/// Bytes of copies for checkpoints that a device keeps in its host's memory.
std::uint64_t checkpoint_copy_bytes(const TrainingPlan& plan, transfer::DeviceId device);

/// Bytes of a device's largest program for what lives only while it runs: activations, and what is
/// received. Programs run one at a time.
std::uint64_t arena_bytes(const TrainingPlan& plan, transfer::DeviceId device);

/// Whether the plan is for a GPU there.
bool is_gpu(const TrainingPlan& plan, transfer::DeviceId device);

/// A device that would hold more than the layout's memory, if there is one.
std::optional<transfer::DeviceId> find_short_of_memory(const TrainingPlan& plan);

}  // namespace weft::mesh
