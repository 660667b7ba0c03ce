#include "mesh/executor/device_actors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/secret.h"
#include "mesh/exchange/rank_connector.h"
#include "mesh/executor/machine_slots.h"

namespace weft::mesh {
namespace {

constexpr Nanoseconds kAskAgainWithin = std::chrono::seconds(1);

}  // namespace

void DeviceActors::spawn(const MeshConfig& mesh, const actors::OnHosts& where) {
  actors::MeshKey key;
  meshes_.push_back(
      cluster_.spawn<DeviceActor>(key, mesh.name, MeshShape(mesh.axes), where, batches_));
  keys_.push_back(key);
  fresh_ranks_.emplace_back();
  for (std::int64_t rank = 0; rank < meshes_.back().size(); ++rank)
    fresh_ranks_.back().insert(static_cast<std::uint32_t>(rank));
}

void DeviceActors::spawn(const LayoutConfig& layout, const std::vector<std::string>& spares) {
  for (const MeshConfig& mesh : layout.meshes) {
    // A host may have died since all have joined.
    actors::OnHosts where{mesh.hosts};
    if (!spares.empty() && !mesh.hosts.empty())
      if (Candidates here = hosts_for(mesh, {spares}, Placed::kNotYet);
          here.devices >= MeshShape(mesh.axes).size())
        where = std::move(here.where);
    spawn(mesh, where);
  }
  find_places();
}

void DeviceActors::take_over(const LayoutConfig& layout) {
  bool whole = true;
  for (const MeshConfig& mesh : layout.meshes) {
    actors::MeshKey key;
    auto taken = cluster_.take_over<DeviceActor>(key, mesh.name, MeshShape(mesh.axes));
    whole = whole && taken;
    if (!whole) continue;  // spawned in this order; it ends here if it was there
    meshes_.push_back(std::move(*taken));
    keys_.push_back(key);
    fresh_ranks_.emplace_back();
    inherited_places_.push_back(cluster_.places_of(key));
  }
  if (!whole) inherited_places_.clear();
}

DeviceActors::Candidates DeviceActors::hosts_for(
    const MeshConfig& mesh, const std::vector<std::vector<std::string>>& others, Placed placed) {
  const actors::ClusterStatus status = cluster_.status();
  Candidates candidates;
  const auto add = [&](const actors::HostStatus& host) {
    if (host.away_seconds || host.suspect ||
        std::ranges::find(candidates.where.hosts, host.offer.name) != candidates.where.hosts.end())
      return;
    candidates.devices += host.offer.devices;
    candidates.where.hosts.push_back(host.offer.name);
    candidates.usable += std::ranges::count_if(host.device_users, [&](const std::string& user) {
      return user.empty() || user.starts_with(mesh.name + "[");
    });
  };
  const auto add_all = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      for (const actors::HostStatus& host : status.hosts)
        if (host.offer.name == name) add(host);
  };
  if (mesh.hosts.empty()) {
    for (const actors::HostStatus& host : status.hosts) add(host);
    return candidates;
  }
  add_all(mesh.hosts);
  // Devices of its own may become free in a moment, and another mesh need the others.
  for (const std::vector<std::string>& names : others)
    if (placed == Placed::kBefore || candidates.devices < MeshShape(mesh.axes).size())
      add_all(names);
  return candidates;
}

std::vector<std::set<std::uint32_t>> DeviceActors::find_broken(Nanoseconds patience) const {
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
      asked[mesh].push_back(ask(mesh, rank, patience));
  for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh) {
    for (std::uint32_t rank = 0; rank < meshes_[mesh].size(); ++rank) {
      if (answers(asked[mesh][rank])) continue;
      // Its call may have failed with those of a device that died meanwhile.
      auto again = ask(mesh, rank, kAskAgainWithin);
      if (!answers(again)) broken[mesh].insert(rank);
    }
  }
  return broken;
}

std::string DeviceActors::renew(const LayoutConfig& layout, const std::vector<std::string>& spares,
                                Nanoseconds patience) {
  reserve_.release();
  fresh_ranks_.resize(meshes_.size());
  missing_.resize(layout.meshes.size());
  // Spares first. What a mesh has left, as its host was away, is free for others.
  std::vector<std::vector<std::string>> others = {spares};
  for (const MeshConfig& mesh : layout.meshes) others.push_back(mesh.hosts);
  // Before devices are there it would come to nothing again. Those of the mesh's own dead become
  // free when it is asked.
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    const MeshConfig& mesh = layout.meshes[m];
    if (missing_[m] > 0 &&
        hosts_for(mesh, others, Placed::kBefore).usable < MeshShape(mesh.axes).size())
      return problem_;
  }
  const std::vector<std::set<std::uint32_t>> broken = find_broken(patience);
  std::string problem;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    const MeshConfig& mesh = layout.meshes[m];
    const actors::OnHosts where =
        hosts_for(mesh, others, m < meshes_.size() ? Placed::kBefore : Placed::kNotYet).where;
    missing_[m] = 0;
    if (where.hosts.empty()) {
      problem = fmt::format(
          "none of the hosts of mesh '{}' is here: {}", mesh.name,
          mesh.hosts.empty() ? "there is none" : fmt::format("{}", fmt::join(mesh.hosts, ", ")));
      break;
    }
    try {
      if (m >= meshes_.size()) {
        spawn(mesh, where);
        continue;
      }
      const auto renewed =
          cluster_.renew<DeviceActor>(meshes_[m], keys_[m], where, broken[m], batches_);
      fresh_ranks_[m].insert(renewed.fresh.begin(), renewed.fresh.end());
      if (!renewed.missing.empty()) {
        missing_[m] = renewed.problem.empty() ? 0 : renewed.missing.size();
        problem = renewed.problem.empty() ? "another device died meanwhile" : renewed.problem;
        break;
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kResourceExhausted ||
          error.code() == ErrorCode::kUnavailable) {
        problem = error.message();
        break;
      }
      if (error.code() != ErrorCode::kNotFound) throw;
      // Nothing is left of it, and so of those after it, which are spawned in this order.
      meshes_.erase(meshes_.begin() + static_cast<std::ptrdiff_t>(m), meshes_.end());
      keys_.resize(m);
      fresh_ranks_.resize(m);
      problem = error.message();
      break;
    }
  }
  problem_ = problem;
  if (problem.empty()) find_places();
  return problem;
}

void DeviceActors::find_places() {
  const actors::ClusterStatus status = cluster_.status();
  places_.clear();
  slots_.clear();
  members_.clear();
  fresh_.clear();
  epoch_ = 0;
  std::map<std::string, int> slots = first_slots(status.hosts);
  for (const actors::HostStatus& host : status.hosts)
    machine_of_[host.offer.name] = host.offer.machine;
  for (std::size_t m = 0; m < meshes_.size(); ++m) {
    places_.push_back(cluster_.places_of(keys_[m]));
    for (std::uint32_t rank = 0; rank < places_.back().size(); ++rank) {
      const actors::HostDevice& place = places_.back()[rank];
      slots_.push_back(slots[place.host] + static_cast<int>(place.device));
      if (fresh_ranks_[m].contains(rank))
        fresh_.insert(transfer::DeviceId(static_cast<std::uint32_t>(members_.size())));
      members_.emplace_back(m, rank);
    }
    epoch_ += keys_[m].epoch;
  }
  fresh_ranks_.assign(meshes_.size(), {});
}

std::unique_ptr<DriverParticipant> DeviceActors::open(const DeviceNumbering& numbering,
                                                      const DeviceConfig& config) {
  // of these meshes in this epoch: it ends with them
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
  auto driver = std::make_unique<DriverParticipant>(own);
  addresses.push_back({own.data.device, own.data.host, driver->address()});
  driver->connect(addresses);
  for (const auto& mesh : meshes_) mesh.call<&DeviceActor::connect>(addresses).get();
  reserve_.take();
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

const std::string& DeviceActors::host_of(transfer::DeviceId device) const {
  const auto [mesh, rank] = members_.at(device.value());
  return places_[mesh][rank].host;
}

const std::string& DeviceActors::machine_of(transfer::DeviceId device) const {
  return machine_of_.at(host_of(device));
}

void DeviceActors::report(transfer::DeviceId device, const std::string& kind,
                          const std::string& line) const {
  const auto [mesh, rank] = members_.at(device.value());
  cluster_.report(kind, keys_[mesh], rank, line);
}

}  // namespace weft::mesh
