#include "transfer/reshard_cases/reshard_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "transfer/reshard_cases/shard_by_mesh.h"

namespace weft::transfer {
namespace {

/// Source or destination of a case: hosts x devices per host, with mesh extents if they differ.
struct CaseSide {
  int hosts = 1;
  int devices = 1;
  std::vector<std::vector<int>> axes;  ///< Mesh axes of each dimension, outermost first.
  std::vector<int> extents = {};       ///< Extents of the mesh. Empty: {hosts, devices}.
};

Topology topology_of(const CaseSide& source, const CaseSide& destination) {
  std::vector<int> devices(source.hosts, source.devices);
  devices.insert(devices.end(), destination.hosts, destination.devices);
  return Topology::dense(devices);
}

MeshSharding cut_of(const CaseSide& side, int first_device) {
  const std::vector<int> extents =
      side.extents.empty() ? std::vector<int>{side.hosts, side.devices} : side.extents;
  return {static_cast<std::uint32_t>(first_device), extents, side.axes};
}

ReshardTask task_of(DType dtype, const Shape& shape, const CaseSide& source,
                    const CaseSide& destination) {
  return {{dtype, shape},
          shard_by_mesh(shape, cut_of(source, 0)),
          shard_by_mesh(shape, cut_of(destination, source.hosts * source.devices))};
}

ReshardCase case_of(std::string_view name, std::string description, const Shape& shape,
                    const CaseSide& source, const CaseSide& destination) {
  ReshardCase result{
      std::string(name), std::move(description), topology_of(source, destination), {}, {}};
  result.tasks.push_back(task_of(DType::kI32, shape, source, destination));
  result.links.assign(result.topology.num_hosts(), {1.0});
  return result;
}

/// Returns an i32 shape of about `bytes` bytes, with the proportions of the paper's tensors.
Shape block(std::uint64_t bytes, std::int64_t lead) {
  const std::int64_t elements = bytes / 4;
  const std::int64_t side = elements >= (16 << 20) ? 1024 : elements >= (1 << 20) ? 256 : 32;
  return {lead * side, side, std::max<std::int64_t>(2, elements / (lead * side * side))};
}

ReshardCase device_to(std::string_view name, std::uint64_t bytes, int hosts, int devices) {
  const Shape shape = {static_cast<std::int64_t>(std::max<std::uint64_t>(1, bytes / 4))};
  return case_of(name, fmt::format("one device to a replica on each of {}x{}", hosts, devices),
                 shape, {1, 1, {{}}}, {hosts, devices, {{}}});
}

ReshardCase paper(std::string_view name, std::uint64_t bytes, int number) {
  const auto make = [&](const char* text, const CaseSide& source, const CaseSide& destination,
                        std::int64_t lead = 1) {
    return case_of(name, text, block(bytes, lead), source, destination);
  };
  switch (number) {
    case 1:
      return make("S0 R R on 2x4 to S0 R R on 2x4", {2, 4, {{0}, {}, {}}}, {2, 4, {{0}, {}, {}}});
    case 2:
      return make("R R R on 2x4 to S0 R R on 2x4", {2, 4, {{}, {}, {}}}, {2, 4, {{0}, {}, {}}});
    case 3:
      return make("R S0 R on 2x4 to S0 R R on 2x4", {2, 4, {{}, {0}, {}}}, {2, 4, {{0}, {}, {}}});
    case 4:
      return make("R S01 R on 2x4 to S01 R R on 2x4", {2, 4, {{}, {0, 1}, {}}},
                  {2, 4, {{0, 1}, {}, {}}});
    case 5:
      return make("S1 R R on 2x4 to S0 R R on 2x4", {2, 4, {{1}, {}, {}}}, {2, 4, {{0}, {}, {}}});
    case 6:
      return make("S0 R R on 2x4 to S0 R R on 3x4", {2, 4, {{0}, {}, {}}}, {3, 4, {{0}, {}, {}}},
                  3);
    case 7:
      return make("S1 R R on 1x4 to R R R on 2x4", {1, 4, {{1}, {}, {}}}, {2, 4, {{}, {}, {}}});
    default:
      return make("R S0 R on 2x4 to R R S0 on 2x4", {2, 4, {{}, {0}, {}}}, {2, 4, {{}, {}, {0}}});
  }
}

/// Splits `hosts` as from : to, with at least one host each and the receivers a multiple of `unit`.
/// Returns {from, to} for 0 hosts.
std::pair<int, int> split_hosts(int hosts, int from, int to, int unit = 1) {
  if (hosts == 0) return {from, to};
  int receivers =
      std::max(unit, static_cast<int>(std::lround(static_cast<double>(hosts) * to / (from + to))) /
                         unit * unit);
  receivers = std::min(receivers, std::max(unit, (hosts - 1) / unit * unit));
  return {std::max(1, hosts - receivers), receivers};
}

/// Returns a nearly square i32 shape of about `bytes` bytes, with at least `parts` rows and
/// columns.
Shape plane(std::uint64_t bytes, int parts) {
  const std::uint64_t elements = std::max<std::uint64_t>(bytes / 4, 1);
  const auto rows =
      std::max<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::sqrt(elements))),
                              std::bit_ceil(static_cast<std::uint64_t>(parts)));
  const auto columns =
      std::max<std::uint64_t>({elements / rows, static_cast<std::uint64_t>(parts), 1});
  return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
}

ReshardCase layout(std::string_view name, std::uint64_t bytes, int number, int hosts) {
  const auto make = [&](std::string text, const CaseSide& source, const CaseSide& destination) {
    text += fmt::format(", {} to {} hosts", source.hosts, destination.hosts);
    const int parts = 4 * std::max(source.hosts, destination.hosts);
    return case_of(name, std::move(text), plane(bytes, parts), source, destination);
  };
  const std::vector<std::vector<int>> replicated = {{}, {}}, rows = {{0, 1}, {}},
                                      columns = {{}, {0, 1}}, rows_in_host = {{1}, {}};
  switch (number) {
    case 1: {
      const auto [from, to] = split_hosts(hosts, 2, 2);
      return make("tensor parallel rows to replicated", {from, 4, rows}, {to, 4, replicated});
    }
    case 2: {
      const auto [from, to] = split_hosts(hosts, 4, 4);
      return make("FSDP to TP4 on every host", {from, 4, rows}, {to, 4, rows_in_host});
    }
    case 3: {
      const auto [from, to] = split_hosts(hosts, 4, 4);
      return make("FSDP to tensor parallel columns", {from, 4, rows}, {to, 4, columns});
    }
    case 4: {
      const auto [from, to] = split_hosts(hosts, 4, 8);
      return make("TP4 x data parallel to TP4 on every host", {from, 4, rows_in_host},
                  {to, 4, rows_in_host});
    }
    case 5: {
      const int to = hosts == 0 ? 8 : hosts - 1;
      return make("TP4 on one host to TP4 on every host", {1, 4, rows_in_host},
                  {to, 4, rows_in_host});
    }
    case 6: {
      const auto [from, to] = split_hosts(hosts, 8, 8, 2);
      return make("FSDP to TP8 on every two hosts", {from, 4, rows},
                  {to, 4, {{1, 2}, {}}, {to / 2, 2, 4}});
    }
    case 7: {
      const auto [from, to] = split_hosts(hosts, 4, 4);
      return make("replicated to row shards", {from, 4, replicated}, {to, 4, rows});
    }
    default: {
      const auto [from, to] = split_hosts(hosts, 3, 5);
      const auto side = std::int64_t{std::lround(std::sqrt(bytes / 4.0) / 1000.0)} * 1000;
      const std::int64_t extent = std::max<std::int64_t>({1000, side, 4 * std::max(from, to)});
      return case_of(name, fmt::format("rows to columns, {} to {} hosts", from, to),
                     {extent, extent}, {from, 4, rows}, {to, 4, columns});
    }
  }
}

ReshardCase uneven(std::string_view name, std::uint64_t bytes) {
  const auto columns = std::max<std::int64_t>(13, bytes / 4 / 1013 / 7);
  return case_of(name, "3x2 with S01 on 1013 rows to 3x3 cut S1 by S0", {1013, 7, columns},
                 {3, 2, {{0, 1}, {}, {}}}, {3, 3, {{}, {1}, {0}}});
}

/// Builds the weights of a GPT-2 of `bytes` in f32 (12 layers and 50,257 tokens: 475 MiB). Matrices
/// are cut 8-way on the trainer and 2-way, by columns or rows as in tensor parallelism, on every
/// inference host. Vectors are replicated there.
ReshardCase gpt2(std::string_view name, std::uint64_t bytes) {
  constexpr std::uint64_t kLayerBytes = 28351488;  // width 768
  const int layers = std::clamp<std::uint64_t>(bytes / (497759232 / 12), 1, 96);
  const std::uint64_t others = layers * kLayerBytes + 1026 * 768 * 4;
  const std::int64_t vocabulary =
      std::max<std::uint64_t>(64, (std::max(bytes, others) - others) / (768 * 4));
  constexpr std::int64_t kWidth = 768;
  const CaseSide trainer_matrix{2, 4, {{0, 1}, {}}}, trainer_vector{2, 4, {{0, 1}}};
  const CaseSide columns{4, 2, {{}, {1}}}, rows{4, 2, {{1}, {}}}, whole{4, 2, {{}}};
  ReshardCase result{
      std::string(name),
      fmt::format("GPT-2 weights, {} layers, 2x4 sharded to 4x2 with TP2 on every host", layers),
      topology_of(trainer_matrix, columns),
      {},
      {}};
  const auto matrix = [&](std::int64_t in, std::int64_t out, const CaseSide& to) {
    result.tasks.push_back(task_of(DType::kF32, {in, out}, trainer_matrix, to));
  };
  const auto vector = [&](std::int64_t size) {
    result.tasks.push_back(task_of(DType::kF32, {size}, trainer_vector, whole));
  };
  matrix(vocabulary, kWidth, rows);
  matrix(1024, kWidth, {4, 2, {{}, {}}});
  for (int layer = 0; layer < layers; ++layer) {
    for (int i = 0; i < 4; ++i) vector(kWidth);  // two layer norms
    matrix(kWidth, 3 * kWidth, columns);
    vector(3 * kWidth);
    matrix(kWidth, kWidth, rows);
    vector(kWidth);
    matrix(kWidth, 4 * kWidth, columns);
    vector(4 * kWidth);
    matrix(4 * kWidth, kWidth, rows);
    vector(kWidth);
  }
  vector(kWidth);
  vector(kWidth);
  result.links.assign(result.topology.num_hosts(), {1.0});
  return result;
}

/// Builds a sum with one term on a device of each of `terms` hosts and the result on another host.
ReshardCase reduce(std::string_view name, std::uint64_t bytes, int terms) {
  const Shape shape = {static_cast<std::int64_t>(std::max<std::uint64_t>(1, bytes / 4))};
  ReshardCase result = case_of(name, fmt::format("terms on {} hosts, their sum to one more", terms),
                               shape, {1, 1, {{}}}, {terms, 1, {{}}});
  ReshardTask& task = result.tasks.front();
  task.type.dtype = DType::kF32;
  std::vector<Shard>& others = task.destination.shards;
  for (int term = 1; term < terms; ++term)
    task.addends.push_back({shape, {others.at(static_cast<std::size_t>(term) - 1)}});
  others.erase(others.begin(), others.end() - 1);
  return result;
}

struct Definition {
  std::string name;
  ReshardCase (*make)(const Definition&, const ReshardCaseOptions&);
  int a = 0, b = 0;
};

std::vector<Definition> definitions() {
  std::vector<Definition> all;
  for (const auto& [hosts, devices] :
       {std::pair(1, 1), {1, 2}, {1, 3}, {1, 4}, {2, 2}, {3, 2}, {4, 2}, {4, 1}}) {
    all.push_back({fmt::format("device-to-{}x{}", hosts, devices),
                   [](const Definition& d, const ReshardCaseOptions& o) {
                     return device_to(d.name, o.bytes, d.a, d.b);
                   },
                   hosts, devices});
  }
  for (const int number : {1, 2, 3, 4, 5, 6, 7, 9}) {
    all.push_back({fmt::format("paper-{}", number),
                   [](const Definition& d, const ReshardCaseOptions& o) {
                     return paper(d.name, o.bytes, d.a);
                   },
                   number});
  }
  for (int number = 1; number <= 8; ++number) {
    all.push_back({fmt::format("layout-{}", number),
                   [](const Definition& d, const ReshardCaseOptions& o) {
                     return layout(d.name, o.bytes, d.a, o.hosts);
                   },
                   number});
  }
  all.push_back({"uneven", [](const Definition& d, const ReshardCaseOptions& o) {
                   return uneven(d.name, o.bytes);
                 }});
  all.push_back({"slow-relay", [](const Definition& d, const ReshardCaseOptions& o) {
                   ReshardCase c = device_to(d.name, o.bytes, 4, 2);
                   c.links[2] = {0.4};
                   c.description += ", host 2 with links of 40 %";
                   return c;
                 }});
  all.push_back({"slow-holder", [](const Definition& d, const ReshardCaseOptions& o) {
                   ReshardCase c = layout(d.name, o.bytes, 2, 0);
                   c.links[1] = {0.4};
                   c.description += ", host 1 with links of 40 %";
                   return c;
                 }});
  for (const int terms : {4, 8}) {
    all.push_back({fmt::format("reduce-{}", terms),
                   [](const Definition& d, const ReshardCaseOptions& o) {
                     return reduce(d.name, o.bytes, d.a);
                   },
                   terms});
  }
  all.push_back({"two-nics", [](const Definition& d, const ReshardCaseOptions& o) {
                   ReshardCase c = device_to(d.name, o.bytes, 3, 2);
                   for (auto& nics : c.links) nics = {1.0, 1.0};
                   c.description += ", two interfaces each";
                   return c;
                 }});
  all.push_back({"gpt2", [](const Definition& d, const ReshardCaseOptions& o) {
                   return gpt2(d.name, o.bytes);
                 }});
  return all;
}

}  // namespace

std::uint64_t ReshardCase::bytes() const {
  std::uint64_t sum = 0;
  for (const ReshardTask& task : tasks) sum += task.type.bytes();
  return sum;
}

Network ReshardCase::network(double bytes_per_second) const {
  Network network;
  for (const std::vector<double>& nics : links) {
    Network::HostLinks host;
    for (const double speed : nics)
      host.nics.push_back({speed * bytes_per_second, speed * bytes_per_second});
    network.hosts.push_back(std::move(host));
  }
  return network;
}

std::vector<std::string> reshard_case_names() {
  std::vector<std::string> names;
  for (const Definition& definition : definitions()) names.push_back(definition.name);
  return names;
}

ReshardCase reshard_case(std::string_view name, const ReshardCaseOptions& options) {
  const std::vector<Definition> all = definitions();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Definition& d) { return d.name == name; });
  if (found == all.end()) {
    throw_error(ErrorCode::kNotFound, "there is no resharding case '{}'; choose {}", name,
                fmt::join(reshard_case_names(), ", "));
  }
  const bool scalable = name.starts_with("layout-");
  if (options.hosts != 0 && (options.hosts < 2 || !scalable)) {
    throw_error(ErrorCode::kInvalidArgument, "case '{}' on {} hosts: {}", name, options.hosts,
                scalable ? "at least 2 are needed"
                         : "only layouts can have another number of hosts than their own");
  }
  return found->make(*found, options);
}

}  // namespace weft::transfer
