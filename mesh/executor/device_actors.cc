#include "mesh/executor/device_actors.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/secret.h"
#include "mesh/executor/machine_slots.h"

namespace weft::mesh {

void DeviceActors::spawn(const LayoutConfig& layout, const std::vector<std::byte>& batches) {
  for (const MeshConfig& mesh : layout.meshes) {
    meshes_.push_back(cluster_.spawn<DeviceActor>(mesh.name, MeshShape(mesh.axes),
                                                  actors::OnHosts{mesh.hosts}, batches));
  }
  find_places();
}

void DeviceActors::find_places() {
  const actors::ClusterStatus status = cluster_.status();
  std::map<std::string, int> slots = first_slots(status.hosts);
  for (const actors::HostStatus& host : status.hosts)
    machine_of_[host.offer.name] = host.offer.machine;
  for (const auto& mesh : meshes_) {
    const actors::MeshStatus* newest = nullptr;
    for (const actors::MeshStatus& candidate : status.meshes) {
      if (candidate.key.name == mesh.name() &&
          (newest == nullptr || candidate.key.epoch > newest->key.epoch))
        newest = &candidate;
    }
    if (newest == nullptr)
      throw_error(ErrorCode::kInternal,
                  "the head does not know mesh '{}', which it has just placed", mesh.name());
    places_.push_back(newest->places);
    for (std::uint32_t rank = 0; rank < newest->places.size(); ++rank) {
      const actors::HostDevice& place = newest->places[rank];
      slots_.push_back(slots[place.host] + static_cast<int>(place.device));
      members_.emplace_back(keys_.size(), rank);
    }
    epoch_ = std::max(epoch_, newest->key.epoch);
    keys_.push_back(newest->key);
  }
}

/// Where all control connections stay on this machine, so does the data plane: UCX reads what
/// anybody sends to its ports.
std::string DeviceActors::data_interfaces() const {
  for (const auto& mesh : meshes_) {
    for (const actors::ActorAddress& actor : mesh.addresses()) {
      const std::string& host = actor.process.address.host;
      if (!host.starts_with("127.") && host != "localhost" && host != "::1") return "";
    }
  }
  return "lo";
}

std::unique_ptr<DriverParticipant> DeviceActors::open(const DeviceNumbering& numbering,
                                                      const DeviceConfig& config) {
  // of these meshes in this epoch: it ends with them
  const Secret secret = Secret::random();
  const std::string interfaces = data_interfaces();
  const auto setup_for = [&](transfer::DeviceId device) {
    DeviceSetup setup{device, numbering.topology.host_of(device), epoch_, interfaces};
    setup.secret = secret.bytes();
    return setup;
  };
  std::vector<PeerAddress> addresses;
  for (std::size_t m = 0; m < meshes_.size(); ++m) {
    const DeviceMesh& mesh = numbering.meshes[MeshId(m)];
    std::vector<DeviceSetup> setups;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      setups.push_back(setup_for(mesh.devices()[rank]));
      setups.back().config = config;
      setups.back().slot = slots_[names_.size()];
      names_.push_back(device_name(mesh, rank));
    }
    const std::vector<std::vector<std::byte>> opened =
        meshes_[m].scatter<&DeviceActor::open>(setups).get();
    for (std::size_t rank = 0; rank < opened.size(); ++rank)
      addresses.push_back({setups[rank].device, setups[rank].host, opened[rank]});
    cluster_.describe(keys_[m], meshes_[m].call<&DeviceActor::description>().get());
  }
  const DeviceSetup own = setup_for(numbering.driver());
  auto driver = std::make_unique<DriverParticipant>(own);
  addresses.push_back({own.device, own.host, driver->address()});
  driver->connect(addresses);
  for (const auto& mesh : meshes_) mesh.call<&DeviceActor::connect>(addresses).get();
  return driver;
}

actors::ActorRef<DeviceActor> DeviceActors::at(transfer::DeviceId device) const {
  const auto [mesh, rank] = members_.at(device.value());
  return meshes_[mesh].rank(rank);
}

actors::MeshRef<DeviceActor> DeviceActors::all() const {
  actors::MeshRef<DeviceActor>::Addresses addresses;
  for (const auto& mesh : meshes_) {
    for (actors::ActorAddress& actor : mesh.addresses())
      addresses.push_back(std::make_shared<const actors::ActorAddress>(std::move(actor)));
  }
  const std::int64_t size = addresses.size();
  return {cluster_.system(), "devices", MeshShape{{"device", size}}, std::move(addresses)};
}

std::vector<std::string> DeviceActors::names_with_places() const {
  std::vector<std::string> names = names_;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [mesh, rank] = members_[i];
    names[i] += " on " + cluster_.whereabouts(keys_[mesh], rank);
  }
  return names;
}

const std::string& DeviceActors::machine_of(transfer::DeviceId device) const {
  const auto [mesh, rank] = members_.at(device.value());
  return machine_of_.at(places_[mesh][rank].host);
}

void DeviceActors::report(transfer::DeviceId device, const std::string& kind,
                          const std::string& line) const {
  const auto [mesh, rank] = members_.at(device.value());
  cluster_.report(kind, keys_[mesh], rank, line);
}

}  // namespace weft::mesh
