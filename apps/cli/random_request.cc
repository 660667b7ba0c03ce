#include "apps/cli/random_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {

ReshardRequest random_reshard_request(std::mt19937_64& random, std::int64_t bytes,
                                      std::uint64_t rate_bits, std::size_t most_hosts) {
  // The smallest extents make 64 KiB of two dimensions, and 8 MiB of three.
  if (bytes < 16 << 10)
    throw_error(ErrorCode::kInvalidArgument, "a random tensor has at least 16 KiB, not {} bytes",
                bytes);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  ReshardRequest request;
  request.rate = fmt::format("{}mbit", rate_bits / 1'000'000);
  // Extents that split evenly, and some that do not.
  constexpr std::array<std::int64_t, 12> kExtents = {128, 192,  256,  300,  331,  384,
                                                     512, 1000, 1024, 4096, 6000, 8192};
  const std::size_t rank = 2 + (below(2) == 1 && bytes >= 2 << 20 ? 1 : 0);
  std::vector<std::int64_t> extents;
  std::int64_t size = 0;
  do {
    extents.clear();
    size = 4;
    for (std::size_t d = 0; d < rank; ++d)
      size *= extents.emplace_back(kExtents[below(kExtents.size())]);
    // What is too small grows along one dimension.
    std::int64_t& some = extents[below(rank)];
    while (size < bytes && size * 2 >= bytes / 16) {
      some *= 2;
      size *= 2;
    }
  } while (size < bytes || size > 4 * bytes);
  for (const std::int64_t extent : extents)
    request.shape += (request.shape.empty() ? "" : "x") + std::to_string(extent);
  const auto side = [&](std::size_t& hosts) {
    hosts = 1 + below(most_hosts);
    std::vector<std::string> parts(rank);
    // Each axis of the mesh splits one dimension, or replicates.
    const std::size_t first = below(2);
    for (const std::size_t axis : {first, 1 - first}) {
      if (const std::size_t d = below(rank + 1); d < rank)
        parts[d] += (parts[d].empty() ? "S" : "") + std::to_string(axis);
    }
    std::string text = fmt::format("{}x{}:", hosts, 1 + below(4));
    for (std::size_t d = 0; d < rank; ++d)
      text += (d > 0 ? "," : "") + (parts[d].empty() ? "R" : parts[d]);
    return text;
  };
  std::size_t from = 0, to = 0;
  request.from = side(from);
  request.to = side(to);
  if (below(10) < 3) request.to_first_host = below(from + 1);
  const std::size_t hosts = std::max(from, request.to_first_host.value_or(from) + to);
  if (below(2) == 0) {
    constexpr std::array kShares = {0.25, 0.5, 2.0, 4.0};
    for (std::size_t link = 0; link < 1 + below(2); ++link) {
      const double share = kShares[below(kShares.size())];
      const std::string host = fmt::format("{}=", below(hosts));
      // The last rate of a link counts: each is named once.
      std::erase_if(request.link_rates,
                    [&](const std::string& earlier) { return earlier.starts_with(host); });
      request.link_rates.push_back(
          fmt::format("{}{}mbit", host,
                      static_cast<std::uint64_t>(share * static_cast<double>(rate_bits) / 1e6)));
    }
  }
  return request;
}

}  // namespace weft::apps
