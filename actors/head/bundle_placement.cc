#include "actors/head/bundle_placement.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft::actors {
namespace {

using Host = std::optional<std::size_t>;
using Verdict = PlacedBundles::Verdict;

/// Steps of the search for bundles of several sizes.
constexpr std::size_t kMostSteps = 20'000;

Host at(const std::vector<Host>& hosts, std::size_t bundle) {
  return bundle < hosts.size() ? hosts[bundle] : std::nullopt;
}

/// Search of one problem, with the room that is left.
class Placement final {
 public:
  explicit Placement(const BundlesToPlace& problem)
      : problem_(problem), host_of_(problem.needs.size()), bundles_on_(problem.hosts.size()) {
    for (const BundlesToPlace::Room& room : problem.hosts) free_.push_back(room.free);
    for (std::size_t bundle = 0; bundle < host_of_.size(); ++bundle) {
      host_of_[bundle] = at(problem.kept, bundle);
      if (host_of_[bundle]) ++bundles_on_[*host_of_[bundle]];
      else to_place_.push_back(bundle);
    }
  }

  PlacedBundles run() {
    switch (problem_.strategy) {
      case PlacementStrategy::kStrictPack: return result(pack_one_host());
      case PlacementStrategy::kStrictSpread: return result(match_hosts());
      default: return result(place_in_order());
    }
  }

 private:
  bool fits(std::size_t bundle, std::size_t host) const {
    if (!problem_.hosts[host].may_take) return false;
    const auto& needs = problem_.needs[bundle];
    for (std::size_t i = 0; i < needs.size(); ++i)
      if (needs[i] > free_[host][i]) return false;
    return true;
  }
  void take(std::size_t bundle, std::size_t host) {
    for (std::size_t i = 0; i < free_[host].size(); ++i)
      free_[host][i] -= problem_.needs[bundle][i];
    host_of_[bundle] = host;
    ++bundles_on_[host];
  }
  void give_back(std::size_t bundle) {
    const std::size_t host = *host_of_[bundle];
    for (std::size_t i = 0; i < free_[host].size(); ++i)
      free_[host][i] += problem_.needs[bundle][i];
    host_of_[bundle].reset();
    --bundles_on_[host];
  }
  /// Returns the rank of a host in the order of kSpread.
  auto spread_rank(std::size_t host) const {
    const BundlesToPlace::Room& room = problem_.hosts[host];
    return std::tuple(bundles_on_[host], room.load, room.num_uses, host);
  }
  /// Returns the hosts in the order of the strategy, with that of `last` first.
  std::vector<std::size_t> hosts_by_preference(const Host& last, bool spreads) const {
    std::vector<std::size_t> hosts(free_.size());
    std::iota(hosts.begin(), hosts.end(), std::size_t{0});
    if (spreads)
      std::ranges::sort(hosts, [&](auto a, auto b) { return spread_rank(a) < spread_rank(b); });
    if (last)
      std::stable_partition(hosts.begin(), hosts.end(),
                            [&](std::size_t host) { return host == *last; });
    return hosts;
  }

  PlacedBundles result(Verdict verdict) const {
    PlacedBundles placed{verdict, {}, num_placed_};
    if (verdict != Verdict::kPlaced) return placed;
    for (const Host& host : host_of_) placed.hosts.push_back(*host);
    placed.num_placed = host_of_.size();
    return placed;
  }
  /// Notes how many bundles have a place, for the reason why the others have none.
  void count_placed() {
    num_placed_ = std::max<std::size_t>(
        num_placed_, std::ranges::count_if(host_of_, [](const Host& host) { return !!host; }));
  }

  Verdict pack_one_host() {
    const Host last = to_place_.empty() ? std::nullopt : at(problem_.last, to_place_.front());
    std::vector<std::size_t> hosts = hosts_by_preference(last, false);
    const auto kept = std::ranges::find_if(host_of_, [](const Host& host) { return !!host; });
    if (kept != host_of_.end()) hosts = {**kept};
    for (const std::size_t host : hosts) {
      std::vector<std::size_t> taken;
      for (const std::size_t bundle : to_place_) {
        if (!fits(bundle, host)) break;
        take(bundle, host);
        taken.push_back(bundle);
      }
      count_placed();
      if (taken.size() == to_place_.size()) return Verdict::kPlaced;
      for (const std::size_t bundle : taken) give_back(bundle);
    }
    return to_place_.empty() ? Verdict::kPlaced : Verdict::kImpossible;
  }

  /// Bipartite matching of bundles and hosts by augmenting paths.
  Verdict match_hosts() {
    std::vector<Host> bundle_of(free_.size());  // Bundle that is matched with a host.
    std::vector<bool> is_kept(free_.size());
    for (const Host& host : host_of_)
      if (host) is_kept[*host] = true;
    const std::vector<std::size_t> order = hosts_by_preference(std::nullopt, true);
    count_placed();
    std::vector<bool> seen;
    const auto may_take = [&](std::size_t bundle, std::size_t host) {
      return !seen[host] && !is_kept[host] && fits(bundle, host);
    };
    // A path may be as long as there are hosts, which are at most some thousands.
    const auto match = [&](const auto& self, std::size_t bundle) -> bool {
      const Host last = at(problem_.last, bundle);
      if (last && !bundle_of[*last] && may_take(bundle, *last)) {
        bundle_of[*last] = bundle;
        return true;
      }
      for (const std::size_t host : order) {
        if (bundle_of[host] || !may_take(bundle, host)) continue;
        bundle_of[host] = bundle;
        return true;
      }
      for (const std::size_t host : order) {
        if (!may_take(bundle, host)) continue;
        seen[host] = true;
        if (!self(self, *bundle_of[host])) continue;
        bundle_of[host] = bundle;
        return true;
      }
      return false;
    };
    for (const std::size_t bundle : to_place_) {
      seen.assign(free_.size(), false);
      if (!match(match, bundle)) return Verdict::kImpossible;
      ++num_placed_;
    }
    for (std::size_t host = 0; host < bundle_of.size(); ++host)
      if (bundle_of[host]) take(*bundle_of[host], host);
    return Verdict::kPlaced;
  }

  Host first_fit(std::size_t bundle, std::size_t from) const {
    if (const Host last = at(problem_.last, bundle); last && fits(bundle, *last)) return last;
    Host best;
    for (std::size_t host = from; host < free_.size(); ++host) {
      if (!fits(bundle, host)) continue;
      if (problem_.strategy == PlacementStrategy::kPack) return host;
      if (!best || spread_rank(host) < spread_rank(*best)) best = host;
    }
    return best;
  }

  Verdict place_in_order() {
    const bool packs = problem_.strategy == PlacementStrategy::kPack;
    bool all_equal = true;
    std::size_t from = 0;
    std::vector<std::size_t> taken;
    for (const std::size_t bundle : to_place_) {
      const bool as_before =
          taken.empty() || problem_.needs[bundle] == problem_.needs[taken.back()];
      all_equal = all_equal && as_before;
      if (!as_before) from = 0;
      const Host host = first_fit(bundle, from);
      if (!host) break;
      // Hosts before this one have no room for the next equal bundle.
      if (packs && at(problem_.last, bundle) != host) from = *host;
      take(bundle, *host);
      taken.push_back(bundle);
    }
    count_placed();
    if (taken.size() == to_place_.size()) return Verdict::kPlaced;
    for (const std::size_t bundle : to_place_)
      all_equal = all_equal && problem_.needs[bundle] == problem_.needs[to_place_.front()];
    // Each try places as many equal bundles as there is room for.
    if (all_equal) return Verdict::kImpossible;
    for (const std::size_t bundle : taken) give_back(bundle);
    return search();
  }

  /// Share of the whole room that a bundle needs: large bundles come first.
  double size_of(std::size_t bundle) const {
    double size = 0;
    for (std::size_t i = 0; i < problem_.needs[bundle].size(); ++i) {
      double most = 1;
      for (const auto& room : free_) most = std::max(most, static_cast<double>(room[i]));
      size = std::max(size, static_cast<double>(problem_.needs[bundle][i]) / most);
    }
    return size;
  }

  /// Searches all placements, up to kMostSteps.
  Verdict search() {
    std::vector<std::pair<double, std::size_t>> sized;
    for (const std::size_t bundle : to_place_) sized.emplace_back(-size_of(bundle), bundle);
    std::ranges::sort(sized);
    std::vector<std::size_t> order;
    for (const auto& [size, bundle] : sized) order.push_back(bundle);
    std::size_t steps = 0;
    const auto place_from = [&](const auto& self, std::size_t next) -> bool {
      if (next == order.size()) return true;
      const bool spreads = problem_.strategy == PlacementStrategy::kSpread;
      std::vector<const std::vector<std::int64_t>*> tried;
      for (const std::size_t host : hosts_by_preference(at(problem_.last, order[next]), spreads)) {
        if (++steps > kMostSteps) return false;
        // A host with the same room as one that was tried gives the same result.
        const bool again =
            std::ranges::any_of(tried, [&](const auto* room) { return *room == free_[host]; });
        if (again || !fits(order[next], host)) continue;
        take(order[next], host);
        if (self(self, next + 1)) return true;
        count_placed();
        give_back(order[next]);
        tried.push_back(&free_[host]);
      }
      return false;
    };
    if (place_from(place_from, 0)) return Verdict::kPlaced;
    return steps > kMostSteps ? Verdict::kUnknown : Verdict::kImpossible;
  }

  const BundlesToPlace& problem_;
  std::vector<std::vector<std::int64_t>> free_;  // By host.
  std::vector<Host> host_of_;                    // By bundle.
  std::vector<std::size_t> to_place_;
  std::vector<std::size_t> bundles_on_;  // By host.
  std::size_t num_placed_ = 0;
};

}  // namespace

PlacedBundles place_bundles(const BundlesToPlace& problem) { return Placement(problem).run(); }

}  // namespace weft::actors
