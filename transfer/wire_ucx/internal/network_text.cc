#include "transfer/wire_ucx/internal/network_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "core/network/interface_address.h"

namespace weft::transfer {

std::string describe_network(const std::string& interfaces) {
  if (interfaces.empty()) return "any interface";
  const std::string list = "," + interfaces + ",";
  std::string text;
  for (const InterfaceAddress& address : interface_addresses())
    if (list.find("," + address.interface + ",") != std::string::npos)
      text += (text.empty() ? "" : ", ") + to_string(address);
  return text.empty() ? interfaces + ", which has no address" : text;
}

std::string network_advice() {
  std::string variables;
  for (char** variable = ::environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).starts_with("UCX_"))
      variables += fmt::format("{}{}", variables.empty() ? "" : ", ", *variable);
  return fmt::format("cluster.hosts: {{interface: NAME}} chooses another network interface; {}",
                     variables.empty() ? "no variable UCX_* is set"
                                       : "variables of UCX that are set: " + variables);
}

}  // namespace weft::transfer
