#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/agent/resources.h"

namespace weft::actors {

/// Exact amounts of resources by name: devices, thousandths of processors ("cpus"), bytes
/// ("memory"), and thousandths of other resources. Has no zeros. {"cpus", 500} is half a processor.
using Amounts = std::map<std::string, std::int64_t>;

inline constexpr const char* kDevicesName = "devices";
inline constexpr const char* kCpusName = "cpus";
inline constexpr const char* kMemoryName = "memory";

/// Returns the amounts of `resources`, rounded to thousandths. `what`: "mesh 'pool'". Throws
/// Error(kInvalidArgument) for a negative or infinite number, for one between 0 and 0.001, and for
/// a custom resource whose name is no name or that of another resource.
Amounts amounts_of(const std::string& what, const Resources& resources);
/// The reverse of amounts_of().
Resources resources_of(const Amounts& amounts);

std::int64_t amount_of(const Amounts& amounts, const std::string& name);
void add(Amounts& to, const Amounts& more);
/// Amounts below zero become zero.
void subtract(Amounts& from, const Amounts& less);
/// Returns whether each amount of `needs` is in `free`.
bool fits(const Amounts& needs, const Amounts& free);

/// Returns "2" for 2 devices, "0.5" for 500 thousandths of a processor, "1 GiB" of memory.
std::string amount_text(const std::string& name, std::int64_t amount);
/// Returns "{devices 1, cpus 2, memory 1 GiB, licence 1}", or "{}".
std::string to_string(const Amounts& amounts);
/// Returns "4 x {devices 1}, {cpus 2}": equal amounts in a row once.
std::string to_string(const std::vector<Amounts>& needs);

}  // namespace weft::actors
