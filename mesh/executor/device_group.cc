#include "mesh/executor/device_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/secret.h"
#include "mesh/exchange/data_plane_connector.h"
#include "mesh/executor/machine_slots.h"

namespace weft::mesh {
namespace {

constexpr Nanoseconds kAskAgainWithin = std::chrono::seconds(1);

}  // namespace

std::vector<actors::RunMeshes::Wanted> DeviceGroup::wanted() const {
  std::vector<Wanted> wanted;
  for (const MeshConfig& mesh : wanted_)
    wanted.push_back({mesh.name, MeshShape(mesh.axes), mesh.hosts});
  return wanted;
}

void DeviceGroup::start_next(const actors::MeshPlacement& where) {
  const MeshConfig& mesh = wanted_.at(meshes_.size());
  actors::MeshKey key;
  meshes_.push_back(cluster_.spawn<DeviceActor>(
      key, mesh.name, MeshShape(mesh.axes),
      actors::SpawnOptions{.place = where, .needs = {.devices = 1}}, batches_));
  keys_.push_back(key);
  new_ranks_.emplace_back();
  for (std::int64_t rank = 0; rank < meshes_.back().size(); ++rank)
    new_ranks_.back().insert(static_cast<std::uint32_t>(rank));
}

void DeviceGroup::adopt_devices() {
  bool whole = true;
  for (const MeshConfig& mesh : wanted_) {
    actors::MeshKey key;
    auto taken = cluster_.adopt_mesh<DeviceActor>(key, mesh.name, MeshShape(mesh.axes));
    whole = whole && taken;
    if (!whole) continue;  // Meshes start in order, so those after a missing one end here.
    meshes_.push_back(std::move(*taken));
    keys_.push_back(key);
    new_ranks_.emplace_back();
    adopted_places_.push_back(cluster_.meshes().places_of(key));
  }
  if (!whole) adopted_places_.clear();
}

std::vector<std::set<std::uint32_t>> DeviceGroup::find_broken() {
  reserve_.release();  // used by connections to replacement devices
  std::vector<std::set<std::uint32_t>> broken(meshes_.size());
  const auto ask = [&](std::size_t mesh, std::uint32_t rank, Nanoseconds within) {
    return meshes_[mesh].rank(rank).within(within).call<&DeviceActor::clock>();
  };
  const auto answers = [](actors::Future<std::int64_t>& answer) {
    try {
      answer.get();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  std::vector<std::vector<actors::Future<std::int64_t>>> asked(meshes_.size());
  for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
    for (std::uint32_t rank = 0; rank < meshes_[mesh].size(); ++rank)
      asked[mesh].push_back(ask(mesh, rank, patience_));
  for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh) {
    for (std::uint32_t rank = 0; rank < meshes_[mesh].size(); ++rank) {
      if (answers(asked[mesh][rank])) continue;
      // The call may have failed because another device died meanwhile, so ask again.
      auto again = ask(mesh, rank, kAskAgainWithin);
      if (!answers(again)) broken[mesh].insert(rank);
    }
  }
  return broken;
}

actors::Cluster::RenewResult DeviceGroup::renew(std::size_t mesh,
                                                const actors::MeshPlacement& where,
                                                const std::set<std::uint32_t>& broken) {
  auto renewed = cluster_.renew<DeviceActor>(meshes_[mesh], keys_[mesh], where, broken, batches_);
  new_ranks_[mesh].insert(renewed.fresh.begin(), renewed.fresh.end());
  return renewed;
}

void DeviceGroup::drop_from(std::size_t mesh) {
  meshes_.erase(meshes_.begin() + static_cast<std::ptrdiff_t>(mesh), meshes_.end());
  keys_.resize(mesh);
  new_ranks_.resize(mesh);
}

void DeviceGroup::find_devices() {
  const actors::ClusterStatus status = cluster_.status();
  places_.clear();
  slots_.clear();
  members_.clear();
  new_devices_.clear();
  epoch_ = 0;
  std::map<std::string, int> slots = first_slot_by_host(status.hosts);
  for (const actors::HostStatus& host : status.hosts)
    machine_of_[host.offer.name] = host.offer.machine;
  for (std::size_t m = 0; m < meshes_.size(); ++m) {
    places_.push_back(cluster_.meshes().places_of(keys_[m]));
    for (std::uint32_t rank = 0; rank < places_.back().size(); ++rank) {
      const actors::HostDevice& place = places_.back()[rank];
      slots_.push_back(slots[place.host] + static_cast<int>(place.device));
      if (new_ranks_[m].contains(rank))
        new_devices_.insert(transfer::DeviceId(static_cast<std::uint32_t>(members_.size())));
      members_.emplace_back(m, rank);
    }
    epoch_ += keys_[m].epoch;
  }
  new_ranks_.assign(meshes_.size(), {});
}

std::unique_ptr<CheckpointEndpoint> DeviceGroup::open(const DeviceNumbering& numbering,
                                                      const DeviceConfig& config) {
  // Valid only for these meshes in this epoch.
  const Secret secret = Secret::random();
  std::set<std::string> hosts;
  for (const auto& places : places_)
    for (const actors::HostDevice& place : places) hosts.insert(place.host);
  const DataInterfaces interfaces = cluster_.data_interfaces(hosts);
  const auto setup_for = [&](transfer::DeviceId device, const std::string& interface) {
    return DeviceSetup{
        {device, numbering.topology.host_of(device), epoch_, interface, secret.bytes()}};
  };
  std::vector<transfer::PeerAddress> addresses;
  names_.clear();
  for (std::size_t m = 0; m < meshes_.size(); ++m) {
    const DeviceMesh& mesh = numbering.meshes[MeshId(m)];
    std::vector<DeviceSetup> setups;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      setups.push_back(setup_for(mesh.devices()[rank], interfaces.of(places_[m].at(rank).host)));
      setups.back().config = config;
      setups.back().slot = slots_[names_.size()];
      names_.push_back(device_name(mesh, rank));
    }
    const std::vector<std::vector<std::byte>> opened =
        meshes_[m].scatter<&DeviceActor::open>(setups).get();
    for (std::size_t rank = 0; rank < opened.size(); ++rank)
      addresses.push_back({setups[rank].data.device, setups[rank].data.host, opened[rank]});
    cluster_.describe(keys_[m], meshes_[m].call<&DeviceActor::description>().get());
  }
  const DeviceSetup own = setup_for(numbering.driver(), interfaces.driver);
  auto driver = std::make_unique<CheckpointEndpoint>(own);
  addresses.push_back({own.data.device, own.data.host, driver->address()});
  driver->connect(addresses);
  for (const auto& mesh : meshes_) mesh.call<&DeviceActor::connect>(addresses).get();
  reserve_.take();
  return driver;
}

actors::ActorRef<DeviceActor> DeviceGroup::at(transfer::DeviceId device) const {
  const auto [mesh, rank] = members_.at(device.value());
  return meshes_[mesh].rank(rank);
}

actors::MeshRef<DeviceActor> DeviceGroup::all() const {
  actors::MeshRef<DeviceActor>::Addresses addresses;
  for (const auto& mesh : meshes_) {
    for (actors::ActorAddress& actor : mesh.addresses())
      addresses.push_back(std::make_shared<const actors::ActorAddress>(std::move(actor)));
  }
  const std::int64_t size = addresses.size();
  return {cluster_.system(), "devices", MeshShape{{"device", size}}, std::move(addresses)};
}

std::vector<std::string> DeviceGroup::names_with_places() const {
  std::vector<std::string> names = names_;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [mesh, rank] = members_[i];
    names[i] += " on " + cluster_.meshes().describe_device(keys_[mesh], rank);
  }
  return names;
}

const std::string& DeviceGroup::host_of(transfer::DeviceId device) const {
  const auto [mesh, rank] = members_.at(device.value());
  return places_[mesh][rank].host;
}

const std::string& DeviceGroup::machine_of(transfer::DeviceId device) const {
  return machine_of_.at(host_of(device));
}

void DeviceGroup::report(transfer::DeviceId device, const std::string& kind,
                         const std::string& line) const {
  const auto [mesh, rank] = members_.at(device.value());
  cluster_.report(kind, keys_[mesh], rank, line);
}

}  // namespace weft::mesh
