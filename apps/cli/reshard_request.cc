#include "apps/cli/reshard_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/sharding/spec.h"

namespace weft::apps {
namespace {

/// Limit because the planner examines all pairs of regions.
constexpr std::size_t kMaxDevices = 1 << 14;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// Parses the whole of `text` as a positive number; returns 0 on failure.
std::int64_t positive(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? number : 0;
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  for (const std::string& part : split(text, 'x')) {
    const std::int64_t extent = positive(part);
    if (extent == 0)
      throw_error(ErrorCode::kInvalidArgument, "--shape {}: expected extents such as 1024x1024x512",
                  text);
    shape.push_back(extent);
  }
  return shape;
}

DType parse_dtype(const std::string& text) {
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kF64, DType::kU8, DType::kBF16})
    if (text == to_string(dtype)) return dtype;
  throw_error(ErrorCode::kInvalidArgument, "--dtype {}: expected f32, i32, f64, u8 or bf16", text);
}

/// Parsed value of --from or --to: a mesh, and a tensor's spec on it.
struct Placement {
  std::int64_t hosts = 0;
  std::int64_t devices = 0;
  mesh::Spec spec;
};

std::vector<int> parse_dimension(const std::string& option, const std::string& text,
                                 const std::string& part) {
  if (part == "R") return {};
  std::vector<int> axes;
  for (const char c : std::string_view(part).substr(std::min<std::size_t>(part.size(), 1)))
    axes.push_back(c - '0');
  const bool sound = part.size() > 1 && part[0] == 'S' &&
                     std::ranges::all_of(axes, [](int axis) { return axis == 0 || axis == 1; });
  if (!sound)
    throw_error(ErrorCode::kInvalidArgument, "{} {}: '{}' is not one of R, S0, S1, S01, S10",
                option, text, part);
  return axes;
}

Placement parse_placement(const std::string& option, const std::string& text, std::size_t rank) {
  const std::size_t colon = text.find(':');
  const auto sizes = split(text.substr(0, colon), 'x');
  const std::int64_t hosts = positive(sizes.front()),
                     devices = sizes.size() == 2 ? positive(sizes.back()) : 0;
  if (colon == std::string::npos || hosts == 0 || devices == 0 || hosts > 1 << 20 ||
      devices > 1 << 20)
    throw_error(ErrorCode::kInvalidArgument,
                "{} {}: expected HOSTSxDEVICES:SPEC such as 2x4:S0,R,R", option, text);
  Placement placement{hosts, devices, {}};
  const auto dimensions = split(text.substr(colon + 1), ',');
  if (dimensions.size() != rank)
    throw_error(ErrorCode::kInvalidArgument,
                "{} {}: the tensor has {} dimensions and the spec {}; give R or S.. for each",
                option, text, rank, dimensions.size());
  std::vector<int> used;
  for (const std::string& part : dimensions) {
    placement.spec.dims.push_back(parse_dimension(option, text, part));
    for (const int axis : placement.spec.dims.back()) {
      if (std::ranges::count(used, axis) != 0)
        throw_error(ErrorCode::kInvalidArgument, "{} {}: mesh axis {} splits more than once",
                    option, text, axis);
      used.push_back(axis);
    }
  }
  return placement;
}

/// Makes a mesh on the first devices of its hosts. Devices are numbered host by host, `per_host` on
/// each.
mesh::DeviceMesh mesh_of(const std::string& name, const Placement& placement,
                         std::size_t first_host, std::int64_t per_host) {
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t host = 0; host < placement.hosts; ++host)
    for (std::int64_t device = 0; device < placement.devices; ++device)
      devices.emplace_back(static_cast<std::uint32_t>(
          (static_cast<std::int64_t>(first_host) + host) * per_host + device));
  return {name,
          {{"0", static_cast<int>(placement.hosts)}, {"1", static_cast<int>(placement.devices)}},
          std::move(devices)};
}

transfer::ShardMap shard_map_of(const std::string& option, const Shape& shape,
                                const mesh::Spec& spec, const mesh::DeviceMesh& mesh) {
  try {
    return mesh::shard_map(shape, spec, mesh);
  } catch (const Error& error) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {}", option, error.message());
  }
}

double rate_of(const std::string& option, std::string_view text) {
  if (const auto rate = parse_rate(text)) return *rate;
  throw_error(ErrorCode::kInvalidArgument,
              "{}: expected a rate with its unit, such as 10gbit, 250mbit, 114MiB (a second)",
              option);
}

}  // namespace

std::string command_words(const ReshardRequest& request) {
  std::string words =
      fmt::format("--shape {} --from {} --to {}", request.shape, request.from, request.to);
  if (request.dtype != ReshardRequest().dtype) words += " --dtype " + request.dtype;
  if (request.to_first_host) words += fmt::format(" --to-first-host {}", *request.to_first_host);
  for (const std::string& link : request.link_rates) words += " --link " + link;
  return words;
}

ReshardProblem parse_reshard_request(const ReshardRequest& request) {
  for (const auto& [option, text] :
       {std::pair("--shape", &request.shape), std::pair("--from", &request.from),
        std::pair("--to", &request.to)})
    if (text->empty())
      throw_error(ErrorCode::kInvalidArgument,
                  "{} is missing; one resharding is given as --shape 1024x1024x512 --from "
                  "2x4:S0,R,R --to 2x4:R,S0,R",
                  option);
  ReshardProblem problem;
  problem.task.type = {parse_dtype(request.dtype), parse_shape(request.shape)};
  const Shape& shape = problem.task.type.shape;
  if (!problem.task.type.is_within_limit())
    throw_error(ErrorCode::kInvalidArgument,
                "--shape {}: a tensor of {} would take more than {}, the most that one may have",
                request.shape, request.dtype, format_bytes(kMaxTensorBytes));
  const Placement from = parse_placement("--from", request.from, shape.size());
  const Placement to = parse_placement("--to", request.to, shape.size());
  const auto first = request.to_first_host.value_or(static_cast<std::size_t>(from.hosts));
  if (first >= kMaxDevices)
    throw_error(ErrorCode::kInvalidArgument, "--to-first-host {}: expected at most {}", first,
                kMaxDevices);
  const std::size_t hosts = std::max<std::size_t>(from.hosts, first + to.hosts);
  const std::int64_t per_host = std::max(from.devices, to.devices);
  if (hosts * per_host > kMaxDevices)
    throw_error(ErrorCode::kInvalidArgument,
                "--from {} --to {}: {} hosts of {} devices are too many to plan for one task; the "
                "most are {} devices",
                request.from, request.to, hosts, per_host, kMaxDevices);
  problem.topology = transfer::Topology::dense(std::vector<int>(hosts, per_host));
  problem.source = mesh_of("from", from, 0, per_host);
  problem.destination = mesh_of("to", to, first, per_host);
  problem.task.source = shard_map_of("--from", shape, from.spec, problem.source);
  problem.task.destination = shard_map_of("--to", shape, to.spec, problem.destination);
  problem.network =
      transfer::Network::uniform(hosts, rate_of("--rate " + request.rate, request.rate));
  for (const std::string& link : request.link_rates) {
    const std::size_t equals = link.find('=');
    std::size_t host = hosts;
    const auto [end, error] =
        std::from_chars(link.data(), link.data() + std::min(equals, link.size()), host);
    if (equals == std::string::npos || error != std::errc() || end != link.data() + equals ||
        host >= hosts)
      throw_error(ErrorCode::kInvalidArgument,
                  "--link {}: expected HOST=RATE with a host from 0 to {}, such as 2=100mbit", link,
                  hosts - 1);
    const double rate = rate_of("--link " + link, std::string_view(link).substr(equals + 1));
    problem.network.hosts[host] = {{transfer::Nic{rate, rate}}};
  }
  return problem;
}

}  // namespace weft::apps
