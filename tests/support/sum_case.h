#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "core/tensor/bfloat16.h"
#include "transfer/reshard/plan.h"

namespace weft::test {

/// Sum of terms on devices, with the values of all terms and of the sum.
struct SumCase {
  transfer::Topology topology;
  transfer::ReshardTask task;
  std::vector<std::vector<std::byte>> terms;  ///< Whole tensor of each term.
  std::vector<std::byte> sum;                 ///< Sum in term order, rounded after each term.

  const transfer::ShardMap& term(std::size_t i) const {
    return i == 0 ? task.source : task.addends[i - 1];
  }
  /// Returns a box of the sum.
  std::vector<std::byte> expected(const Region& region) const { return box(sum, region); }
  /// Returns the device's part of its term. Empty if it has none.
  std::vector<std::byte> source(transfer::DeviceId device) const {
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if (const Region* region = term(i).region_of(device)) return box(terms[i], *region);
    }
    return {};
  }
  std::vector<std::byte> box(const std::vector<std::byte>& whole, const Region& region) const {
    const std::size_t size = size_of(task.type.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(region.num_elements()) * size);
    copy_region(region, size, Region::whole(task.type.shape), whole, region, bytes);
    return bytes;
  }
};

/// Makes numbers whose sum depends on the order.
template <typename T>
void fill_terms(std::mt19937_64& random, std::size_t count, SumCase& sums) {
  const auto number = [&] {
    return static_cast<T>(std::ldexp(static_cast<float>(random() % 10007) - 5000,
                                     static_cast<int>(random() % 20) - 10));
  };
  const auto as_bytes_of = [](const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  std::vector<T> sum;
  for (std::size_t i = 0; i <= sums.task.addends.size(); ++i) {
    std::vector<T> term(count);
    for (T& value : term) value = number();
    sums.terms.push_back(as_bytes_of(term));
    if (i == 0) sum = term;
    for (std::size_t at = 0; i > 0 && at < count; ++at) {
      if constexpr (std::is_same_v<T, BFloat16>)
        sum[at] = BFloat16(static_cast<float>(sum[at]) + static_cast<float>(term[at]));
      else sum[at] += term[at];
    }
  }
  sums.sum = as_bytes_of(sum);
}

inline void fill_terms(std::mt19937_64& random, SumCase& sums) {
  const auto count = static_cast<std::size_t>(num_elements(sums.task.type.shape));
  sums.terms.clear();
  switch (sums.task.type.dtype) {
    case DType::kBF16: return fill_terms<BFloat16>(random, count, sums);
    case DType::kF64: return fill_terms<double>(random, count, sums);
    case DType::kI32: return fill_terms<std::int32_t>(random, count, sums);
    default: return fill_terms<float>(random, count, sums);
  }
}

/// Splits the tensor among the devices along a random dimension. If there are more devices than
/// parts, parts have replicas.
inline transfer::ShardMap random_map(std::mt19937_64& random, const Shape& shape,
                                     const std::vector<transfer::DeviceId>& devices) {
  const std::size_t along = random() % shape.size();
  const auto most = std::min<std::int64_t>(static_cast<std::int64_t>(devices.size()), shape[along]);
  const auto parts = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(most));
  transfer::ShardMap map{shape, {}};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    std::vector<Interval> region;
    for (const std::int64_t extent : shape) region.push_back({0, extent});
    const std::int64_t part = static_cast<std::int64_t>(i) % parts;
    region[along] = {shape[along] * part / parts, shape[along] * (part + 1) / parts};
    map.shards.push_back({devices[i], Region(std::move(region))});
  }
  return map;
}

/// Makes terms on disjoint sets of one to three devices, as far as there are devices. Any device
/// may want the sum.
inline SumCase random_sum(std::mt19937_64& random, const transfer::Topology& topology,
                          std::size_t num_terms, const Shape& shape) {
  std::vector<transfer::DeviceId> devices;
  for (std::uint32_t i = 0; i < topology.num_devices(); ++i) devices.emplace_back(i);
  const auto some = [&](std::size_t most) {
    const std::size_t count = 1 + random() % most;
    std::vector<transfer::DeviceId> taken(devices.begin(),
                                          devices.begin() + static_cast<std::ptrdiff_t>(count));
    devices.erase(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(count));
    return taken;
  };
  const DType dtype = std::array{DType::kF32, DType::kBF16, DType::kF64, DType::kI32}[random() % 4];
  SumCase sums{topology, {{dtype, shape}, {}, {}, {}}, {}, {}};
  std::shuffle(devices.begin(), devices.end(), random);
  sums.task.destination = random_map(
      random, shape, {devices.begin(), devices.begin() + 1 + random() % 3 % devices.size()});
  std::shuffle(devices.begin(), devices.end(), random);
  for (std::size_t i = 0; i < num_terms; ++i) {
    const std::size_t spare = devices.size() - (num_terms - i - 1);
    const transfer::ShardMap map = random_map(random, shape, some(std::min<std::size_t>(3, spare)));
    if (i == 0) sums.task.source = map;
    else sums.task.addends.push_back(map);
  }
  fill_terms(random, sums);
  return sums;
}

/// Puts terms 0, 1, ... whole on devices 0, 1, ... The devices in `wanting` want the whole sum.
inline SumCase whole_sum(std::mt19937_64& random, const transfer::Topology& topology,
                         std::uint32_t num_terms, const TensorType& type,
                         const std::vector<std::uint32_t>& wanting) {
  const Region whole = Region::whole(type.shape);
  SumCase sums{topology, {type, {type.shape, {}}, {type.shape, {}}, {}}, {}, {}};
  for (std::uint32_t i = 0; i < num_terms; ++i) {
    const transfer::ShardMap map{type.shape, {{transfer::DeviceId(i), whole}}};
    if (i == 0) sums.task.source = map;
    else sums.task.addends.push_back(map);
  }
  for (const std::uint32_t device : wanting)
    sums.task.destination.shards.push_back({transfer::DeviceId(device), whole});
  fill_terms(random, sums);
  return sums;
}

}  // namespace weft::test
