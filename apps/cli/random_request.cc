#include "apps/cli/random_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Random generator of the parts of a request. The results depend on the order of calls.
class RequestDraw {
 public:
  explicit RequestDraw(std::mt19937_64& random) : random_(random) {}

  std::size_t below(std::size_t n) { return random_() % n; }

  /// Draws the extents of an f32 tensor of `bytes` to four times that.
  std::vector<std::int64_t> extents(std::int64_t bytes) {
    // Extents that split evenly, and others.
    constexpr std::array<std::int64_t, 12> kExtents = {128, 192,  256,  300,  331,  384,
                                                       512, 1000, 1024, 4096, 6000, 8192};
    const std::size_t rank = 2 + (below(2) == 1 && bytes >= 2 << 20 ? 1 : 0);
    std::vector<std::int64_t> drawn;
    std::int64_t size = 0;
    do {
      drawn.clear();
      size = 4;
      for (std::size_t d = 0; d < rank; ++d)
        size *= drawn.emplace_back(kExtents[below(kExtents.size())]);
      // Doubles one dimension until the tensor is large enough.
      std::int64_t& some = drawn[below(rank)];
      while (size < bytes && size * 2 >= bytes / 16) {
        some *= 2;
        size *= 2;
      }
    } while (size < bytes || size > 4 * bytes);
    return drawn;
  }

  /// Mesh and spec, such as "4x2:S0,R", and its number of hosts.
  struct RequestSide {
    std::size_t hosts = 0;
    std::string text;
  };
  RequestSide side(std::size_t rank, std::size_t most_hosts) {
    RequestSide drawn;
    drawn.hosts = 1 + below(most_hosts);
    std::vector<std::string> parts(rank);
    // Each mesh axis splits one dimension, or replicates.
    const std::size_t first = below(2);
    for (const std::size_t axis : {first, 1 - first}) {
      if (const std::size_t d = below(rank + 1); d < rank)
        parts[d] += (parts[d].empty() ? "S" : "") + std::to_string(axis);
    }
    drawn.text = fmt::format("{}x{}:", drawn.hosts, 1 + below(4));
    for (std::size_t d = 0; d < rank; ++d)
      drawn.text += (d > 0 ? "," : "") + (parts[d].empty() ? "R" : parts[d]);
    return drawn;
  }

  /// Draws other rates for the links of one or two hosts, in half of the cases.
  std::vector<std::string> link_rates(std::size_t hosts, std::uint64_t rate_bits) {
    std::vector<std::string> rates;
    if (below(2) != 0) return rates;
    constexpr std::array kShares = {0.25, 0.5, 2.0, 4.0};
    for (std::size_t link = 0; link < 1 + below(2); ++link) {
      const double share = kShares[below(kShares.size())];
      const std::string host = fmt::format("{}=", below(hosts));
      // Names each host once: its last rate counts.
      std::erase_if(rates, [&](const std::string& earlier) { return earlier.starts_with(host); });
      rates.push_back(
          fmt::format("{}{}mbit", host, static_cast<std::uint64_t>(share * rate_bits / 1e6)));
    }
    return rates;
  }

 private:
  std::mt19937_64& random_;
};

}  // namespace

ReshardRequest random_reshard_request(std::mt19937_64& random, std::int64_t bytes,
                                      std::uint64_t rate_bits, std::size_t most_hosts) {
  // The smallest extents give 64 KiB in two dimensions and 8 MiB in three.
  if (bytes < 16 << 10)
    throw_error(ErrorCode::kInvalidArgument, "a random tensor has at least 16 KiB, not {} bytes",
                bytes);
  RequestDraw draw(random);
  ReshardRequest request;
  request.rate = fmt::format("{}mbit", rate_bits / 1'000'000);
  const std::vector<std::int64_t> extents = draw.extents(bytes);
  request.shape = fmt::format("{}", fmt::join(extents, "x"));
  const RequestDraw::RequestSide from = draw.side(extents.size(), most_hosts);
  const RequestDraw::RequestSide to = draw.side(extents.size(), most_hosts);
  request.from = from.text;
  request.to = to.text;
  if (draw.below(10) < 3) request.to_first_host = draw.below(from.hosts + 1);
  const std::size_t hosts =
      std::max(from.hosts, request.to_first_host.value_or(from.hosts) + to.hosts);
  request.link_rates = draw.link_rates(hosts, rate_bits);
  return request;
}

}  // namespace weft::apps
