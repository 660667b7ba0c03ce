#pragma once

#include <cstdint>
#include <optional>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Returns the bytes that a device holds under the plan: parameters, gradients, moments,
/// activations, and staging for exchanges with other GPUs. Includes copies for checkpoints and
/// recovery, which are in host memory, unless it is a GPU.
std::uint64_t device_memory(const TrainingPlan& plan, transfer::DeviceId device);

/// Returns the bytes that a device holds in host memory: everything, or a GPU's copies for
/// checkpoints and recovery.
std::uint64_t host_memory(const TrainingPlan& plan, transfer::DeviceId device);

/// Returns the bytes of copies for checkpoints that a device keeps in host memory.
std::uint64_t checkpoint_copy_bytes(const TrainingPlan& plan, transfer::DeviceId device);

/// Returns the bytes of a device's largest arena: activations and received tensors, which exist
/// only while a program runs. Programs run one at a time.
std::uint64_t arena_bytes(const TrainingPlan& plan, transfer::DeviceId device);

/// Returns whether the plan counts on a GPU for this device.
bool is_gpu(const TrainingPlan& plan, transfer::DeviceId device);

/// Returns a device that would hold more than the layout's memory, if there is one.
std::optional<transfer::DeviceId> find_device_beyond_memory(const TrainingPlan& plan);

}  // namespace weft::mesh
