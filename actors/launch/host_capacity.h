#pragma once

#include <string>
#include <vector>

#include "actors/agent/resources.h"
#include "actors/launch/role_arguments.h"

namespace weft::actors {

// Options of a host: --label zone=a --resource licence=2 --cpus 8 --memory BYTES

/// Adds a label from "zone=a". Throws Error(kInvalidArgument), also if the key has another value
/// already.
void add_label(HostCapacity& capacity, const std::string& text);
/// Adds a resource from "licence=2", a positive number. Throws Error(kInvalidArgument) for other
/// text, for a second number of the same resource, and for the name of one that each host has.
void add_resource(HostCapacity& capacity, const std::string& text);

/// Checks the parts of labels and resources that a run file gives. Returns what is wrong, or "".
std::string label_problem(const std::string& key, const std::string& value);
std::string resource_problem(const std::string& name, double number);

/// Returns the options as arguments of the role `agent`; the memory is in bytes.
std::vector<std::string> to_arguments(const HostCapacity& capacity);
/// The reverse of to_arguments(). Throws Error(kInvalidArgument).
HostCapacity host_capacity_of(const RoleArguments& arguments);

}  // namespace weft::actors
