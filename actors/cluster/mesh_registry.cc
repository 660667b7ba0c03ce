#include "actors/cluster/mesh_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::actors {

void MeshRegistry::put(const MeshProcesses& mesh) {
  meshes_[mesh.key] = mesh;
  for (const DeviceProcess& process : mesh.processes)
    if (process.agent.id != ProcessId()) agents_[process.place.host] = process.agent;
}

bool MeshRegistry::add_if(const std::function<bool()>& is_valid, const MeshProcesses& mesh) {
  const std::lock_guard lock(mutex_);
  if (!is_valid()) return false;
  put(mesh);
  return true;
}

void MeshRegistry::add_inherited(const MeshProcesses& mesh) {
  const std::lock_guard lock(mutex_);
  inherited_[mesh.key.name] = mesh.key;
  put(mesh);
}

std::optional<MeshProcesses> MeshRegistry::take_inherited(const std::string& name) {
  std::unique_lock lock(mutex_);
  wait_until_released(lock, name);
  const auto found = inherited_.extract(name);
  if (!found) return std::nullopt;
  return meshes_.at(found.mapped());
}

void MeshRegistry::wait_until_released(std::unique_lock<Mutex>& lock, const std::string& name) {
  changed_.wait(lock, [&] { return !releasing_.contains(name); });
}

void MeshRegistry::take_children(const std::string& parent_mesh,
                                 std::vector<MeshProcesses>& taken) {
  std::vector<MeshProcesses> children;
  for (const auto& [name, key] : inherited_)
    if (meshes_.at(key).parent_mesh == parent_mesh) children.push_back(meshes_.at(key));
  for (const MeshProcesses& child : children) inherited_.erase(child.key.name);
  for (const MeshProcesses& child : children) {
    releasing_.insert(child.key.name);
    take_children(child.key.name, taken);
    taken.push_back(child);
  }
}

std::vector<MeshProcesses> MeshRegistry::begin_release(const std::string& name) {
  std::unique_lock lock(mutex_);
  wait_until_released(lock, name);
  std::vector<MeshProcesses> taken;
  const auto found = inherited_.extract(name);
  if (!found) return taken;
  releasing_.insert(name);
  take_children(name, taken);
  taken.push_back(meshes_.at(found.mapped()));
  return taken;
}

std::vector<MeshProcesses> MeshRegistry::begin_release_of_children(const std::string& parent_mesh) {
  const std::lock_guard lock(mutex_);
  std::vector<MeshProcesses> taken;
  take_children(parent_mesh, taken);
  return taken;
}

void MeshRegistry::end_release(const std::vector<MeshProcesses>& meshes, bool undone) {
  const std::lock_guard lock(mutex_);
  for (const MeshProcesses& mesh : meshes) {
    releasing_.erase(mesh.key.name);
    if (undone) inherited_[mesh.key.name] = mesh.key;
  }
  changed_.notify_all();
}

std::vector<std::string> MeshRegistry::orphans() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, key] : inherited_) {
    const std::string& parent = meshes_.at(key).parent_mesh;
    if (!parent.empty() && !inherited_.contains(parent)) names.push_back(name);
  }
  return names;
}

bool MeshRegistry::has_inherited(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return inherited_.contains(name);
}

std::vector<std::string> MeshRegistry::inherited_names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, key] : inherited_) names.push_back(name);
  return names;
}

void MeshRegistry::replace(const MeshKey& former, const MeshProcesses& mesh) {
  const std::lock_guard lock(mutex_);
  meshes_.erase(former);
  put(mesh);
}

std::optional<MeshProcesses> MeshRegistry::remove(const MeshKey& mesh) {
  const std::lock_guard lock(mutex_);
  auto found = meshes_.extract(mesh);
  if (!found) return std::nullopt;
  return std::move(found.mapped());
}

bool MeshRegistry::contains(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  return meshes_.contains(mesh);
}

std::vector<MeshKey> MeshRegistry::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<MeshKey> keys;
  for (const auto& [key, mesh] : meshes_) keys.push_back(key);
  return keys;
}

std::vector<MeshProcesses> MeshRegistry::meshes() const {
  const std::lock_guard lock(mutex_);
  std::vector<MeshProcesses> meshes;
  for (const auto& [key, mesh] : meshes_) meshes.push_back(mesh);
  return meshes;
}

std::map<std::string, ProcessRef> MeshRegistry::agents() const {
  const std::lock_guard lock(mutex_);
  return agents_;
}

std::vector<HostDevice> MeshRegistry::places_of(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  std::vector<HostDevice> places;
  for (const DeviceProcess& process : meshes_.at(mesh).processes) places.push_back(process.place);
  return places;
}

std::set<std::uint32_t> MeshRegistry::missing_ranks(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  std::set<std::uint32_t> missing;
  for (const DeviceProcess& process : meshes_.at(mesh).processes)
    if (process.process.id == ProcessId()) missing.insert(process.rank);
  return missing;
}

std::optional<DeviceProcess> MeshRegistry::device(const MeshKey& mesh, std::uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = meshes_.find(mesh);
  if (found == meshes_.end() || rank >= found->second.processes.size()) return std::nullopt;
  return found->second.processes[rank];
}

std::string MeshRegistry::describe_device(const MeshKey& mesh, std::uint32_t rank) const {
  const auto found = device(mesh, rank);
  if (!found) return "an unknown device";
  return fmt::format("{} (pid {})", found->place.text(), found->pid);
}

std::vector<MeshRegistry::MeshMember> MeshRegistry::find(ProcessId process) const {
  const std::lock_guard lock(mutex_);
  std::vector<MeshMember> members;
  for (const auto& [key, mesh] : meshes_) {
    const auto device = std::ranges::find_if(
        mesh.processes, [&](const DeviceProcess& each) { return each.process.id == process; });
    if (device != mesh.processes.end()) members.push_back({key, *device});
  }
  return members;
}

}  // namespace weft::actors
