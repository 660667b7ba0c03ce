#include "actors/system/mesh_arguments.h"

#include <utility>

#include "actors/system/system.h"

namespace weft::actors {

void MeshArguments::add(const Key& key, Announce announce) {
  Value& value = values_.try_emplace(key, Value{std::move(announce)}).first->second;
  if (std::exchange(value.last_call, calls_) != calls_) ++value.calls;
}

void MeshArguments::announce() const {
  if (values_.empty()) return;
  std::map<ProcessId, ProcessRef> processes;
  for (const auto& actor : actors_) {
    const ProcessRef process = system_.last_known_address(*actor).process;
    processes.emplace(process.id, process);
  }
  if (processes.size() < 2) return;
  std::vector<ProcessRef> receivers;
  for (auto& [id, process] : processes) receivers.push_back(std::move(process));
  for (const auto& [key, value] : values_)
    if (value.calls == calls_) value.announce(system_, receivers);
}

}  // namespace weft::actors
