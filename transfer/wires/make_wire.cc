#include "transfer/wires/make_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "transfer/wire/wire_network.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::transfer {
namespace {

struct Transport {
  const char* name;
  std::unique_ptr<Wire> (*make)(DeviceId self, HostId host, const WireSettings& settings);
};

std::unique_ptr<Wire> make_ucx(DeviceId self, HostId host, const WireSettings& settings) {
  UcxOptions options;
  options.secret = settings.secret;
  options.interfaces = settings.interfaces;
  return make_ucx_wire(self, host, options);
}

constexpr std::array kTransports = {
    Transport{"ucx", make_ucx},
};

}  // namespace

std::unique_ptr<Wire> make_wire(DeviceId self, HostId host, const WireSettings& settings) {
  if (WireNetwork* const network = WireNetwork::simulated()) return network->make_wire(self);
  const auto transport = std::ranges::find_if(
      kTransports, [&](const Transport& each) { return each.name == settings.transport; });
  if (transport == kTransports.end()) {
    throw_error(ErrorCode::kInvalidArgument, "there is no transport '{}', only {}",
                settings.transport, fmt::join(transport_names(), ", "));
  }
  return transport->make(self, host, settings);
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const Transport& transport : kTransports) names.emplace_back(transport.name);
  return names;
}

}  // namespace weft::transfer
