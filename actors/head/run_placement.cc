#include "actors/head/run_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>

namespace weft::actors {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};
/// Number of host tiers of a rank, best first: its last host, its mesh's hosts, spares, other
/// meshes' hosts.
constexpr std::size_t kTiers = 4;

/// Matching of devices to ranks without one, tier by tier, along augmenting paths. A matched rank
/// stays matched, but may move to another device.
class Matching final {
 public:
  Matching(const std::vector<HostDevices>& hosts, const std::vector<MeshToPlace>& meshes,
           const std::vector<std::string>& spares, HostScope reach)
      : hosts_(hosts), meshes_(meshes), spares_(spares), reach_(reach) {
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      first_.push_back(rank_at_.size());
      rank_at_.resize(rank_at_.size() + hosts_[host].users.size(), kNone);
      if (hosts_[host].accepts_processes) usable_hosts_.emplace(hosts_[host].name, host);
    }
    find_ranks();
    for (std::size_t tier = 0; tier < kTiers; ++tier) match(tier);
    while (return_to_last_host()) continue;
  }

  RunPlacement placement() const {
    RunPlacement result;
    for (const MeshToPlace& mesh : meshes_) {
      result.places.push_back(mesh.places);
      result.places.back().resize(static_cast<std::size_t>(mesh.size));
    }
    result.lacking.resize(meshes_.size());
    for (const RankToPlace& rank : ranks_)
      if (rank.device == kNone) ++result.lacking[rank.mesh];
      else result.places[rank.mesh][rank.rank] = device(rank.device);
    const auto first =
        std::ranges::find_if(result.lacking, [](std::size_t ranks) { return ranks > 0; });
    if (first != result.lacking.end())
      result.problem = problem_of(static_cast<std::size_t>(first - result.lacking.begin()), *first);
    return result;
  }

 private:
  struct RankToPlace {
    std::size_t mesh = 0;
    std::uint32_t rank = 0;
    std::array<std::vector<std::size_t>, kTiers> hosts;  // Hosts that answer, by tier.
    std::size_t device = kNone;
  };

  HostDevice device(std::size_t index) const {
    const auto host = std::ranges::upper_bound(first_, index) - first_.begin() - 1;
    return {hosts_[host].name, static_cast<std::uint32_t>(index - first_[host])};
  }

  void find_ranks() {
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      const MeshToPlace& mesh = meshes_[m];
      std::vector<std::string> own = mesh.hosts, others;
      if (own.empty())
        for (const HostDevices& host : hosts_) own.push_back(host.name);
      if (reach_ == HostScope::kWholeRun)
        for (const MeshToPlace& other : meshes_)
          others.insert(others.end(), other.hosts.begin(), other.hosts.end());
      const bool needs_spares = reach_ == HostScope::kWholeRun || devices_of(own) < mesh.size;
      for (std::uint32_t rank = 0; rank < mesh.size; ++rank) {
        if (rank < mesh.places.size() && !mesh.broken.contains(rank)) continue;
        RankToPlace& found = ranks_.emplace_back();
        found.mesh = m;
        found.rank = rank;
        std::set<std::size_t> known;
        if (rank < mesh.places.size()) add(found.hosts[0], {mesh.places[rank].host}, known);
        add(found.hosts[1], own, known);
        if (needs_spares) add(found.hosts[2], spares_, known);
        add(found.hosts[3], others, known);
      }
    }
  }

  std::int64_t devices_of(const std::vector<std::string>& names) const {
    std::int64_t devices = 0;
    for (const HostDevices& host : hosts_)
      if (host.accepts_processes && std::ranges::find(names, host.name) != names.end())
        devices += std::ssize(host.users);
    return devices;
  }

  void add(std::vector<std::size_t>& to, const std::vector<std::string>& names,
           std::set<std::size_t>& known) const {
    for (const std::string& name : names)
      if (const auto host = usable_hosts_.find(name);
          host != usable_hosts_.end() && known.insert(host->second).second)
        to.push_back(host->second);
  }

  bool usable(const RankToPlace& rank, std::size_t host, std::size_t device) const {
    const MeshKey& user = hosts_[host].users[device];
    if (user.name.empty()) return true;
    const MeshToPlace& mesh = meshes_[rank.mesh];
    if (user != mesh.key) return false;
    const HostDevice place{hosts_[host].name, static_cast<std::uint32_t>(device)};
    return std::ranges::any_of(mesh.broken, [&](std::uint32_t broken) {
      return broken < mesh.places.size() && mesh.places[broken] == place;
    });
  }

  template <typename TryDevice>
  bool any_device(const RankToPlace& rank, std::size_t tiers, const TryDevice& try_device) const {
    for (std::size_t tier = 0; tier <= tiers; ++tier)
      for (const std::size_t host : rank.hosts[tier])
        for (std::size_t device = 0; device < hosts_[host].users.size(); ++device)
          if (usable(rank, host, device) && try_device(first_[host] + device)) return true;
    return false;
  }

  /// Limit of how far a rank on its last host may move to make room for others.
  enum class Moves : std::uint8_t { kKeepLastHost, kAnywhere };

  void match(std::size_t tier) {
    // Places ranks in order, without moving any; then the ranks that are left.
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].device == kNone)
        any_device(ranks_[r], tier, [&](std::size_t device) {
          return rank_at_[device] == kNone && give(r, device);
        });
    for (const Moves moves : {Moves::kKeepLastHost, Moves::kAnywhere}) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].device != kNone) continue;
        std::vector<bool> seen(rank_at_.size());
        augment(r, tier, {tier, moves}, seen);
      }
    }
  }

  /// Moves one more rank back to its last host, if possible, since match() takes any free device.
  /// Returns whether it has moved one.
  bool return_to_last_host() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::size_t before = ranks_[r].device;
      if (before == kNone || ranks_[r].hosts[0].empty() || is_home(ranks_[r])) continue;
      rank_at_[before] = kNone;
      std::vector<bool> seen(rank_at_.size());
      if (augment(r, 0, {kTiers - 1, Moves::kKeepLastHost}, seen)) return true;
      rank_at_[before] = r;
    }
    return false;
  }

  bool is_home(const RankToPlace& rank) const {
    const std::vector<HostDevice>& places = meshes_[rank.mesh].places;
    return rank.rank < places.size() && places[rank.rank].host == device(rank.device).host;
  }

  static bool visited(std::vector<bool>& seen, std::size_t device) {
    const bool before = seen[device];
    seen[device] = true;
    return before;
  }

  bool give(std::size_t rank, std::size_t device) {
    rank_at_[device] = rank;
    ranks_[rank].device = device;
    return true;
  }

  struct Others {
    std::size_t tier = 0;  // Last tier that they may use.
    Moves moves = Moves::kKeepLastHost;
  };

  /// Gives `rank` a device up to `tier`, and another device to each rank on the path. Returns
  /// false, and changes nothing, if it cannot.
  bool augment(std::size_t rank, std::size_t tier, const Others& others, std::vector<bool>& seen) {
    return any_device(ranks_[rank], tier, [&](std::size_t device) {
      if (visited(seen, device)) return false;
      const std::size_t there = rank_at_[device];
      if (there == kNone) return give(rank, device);
      const bool stays = others.moves == Moves::kKeepLastHost && is_home(ranks_[there]);
      return augment(there, stays ? 0 : others.tier, others, seen) && give(rank, device);
    });
  }

  std::string problem_of(std::size_t m, std::size_t lacking) const {
    const MeshToPlace& mesh = meshes_[m];
    std::set<std::string> wanted(mesh.hosts.begin(), mesh.hosts.end());
    std::vector<std::string> gone;
    for (const std::string& name : wanted)
      if (std::ranges::none_of(hosts_, [&](const HostDevices& host) {
            return host.name == name && host.accepts_processes;
          }))
        gone.push_back(name);
    std::string text =
        fmt::format("mesh '{}' is missing {} of its {} devices", mesh.name, lacking, mesh.size);
    if (!gone.empty())
      text += fmt::format("; {} of its hosts {} not respond: {}", gone.size(),
                          gone.size() == 1 ? "does" : "do", fmt::join(gone, ", "));
    text += "; hosts:";
    if (hosts_.empty()) text += " none";
    for (const HostDevices& host : hosts_) {
      std::map<std::string, int> users;
      for (const MeshKey& user : host.users) ++users[user.name];
      std::vector<std::string> parts;
      if (users.empty()) parts.emplace_back("no devices");
      for (const auto& [user, devices] : users)
        parts.push_back(user.empty() ? fmt::format("{} free", devices)
                                     : fmt::format("{} used by mesh {}", devices, user));
      text += fmt::format("\n  {}: {}", host.name,
                          host.accepts_processes
                              ? fmt::format("{}", fmt::join(parts, ", "))
                              : std::string("does not answer, or is leaving the cluster"));
    }
    return text;
  }

  const std::vector<HostDevices>& hosts_;
  const std::vector<MeshToPlace>& meshes_;
  const std::vector<std::string>& spares_;
  const HostScope reach_;
  std::unordered_map<std::string_view, std::size_t> usable_hosts_;  // Hosts that answer, by name.
  std::vector<std::size_t> first_;    // Number of the first device, by host.
  std::vector<std::size_t> rank_at_;  // Rank or kNone, by device.
  std::vector<RankToPlace> ranks_;    // Ranks that need a device.
};

}  // namespace

RunPlacement place_run(const std::vector<HostDevices>& hosts,
                       const std::vector<MeshToPlace>& meshes,
                       const std::vector<std::string>& spares, HostScope reach) {
  return Matching(hosts, meshes, spares, reach).placement();
}

}  // namespace weft::actors
