#include "actors/launch/roles.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

namespace weft::actors {

std::vector<std::string> to_arguments(const HeadRole& role) {
  return {"--weft-role=head",   "--listen",       to_string(role.listen), "--state",
          role.state_directory, "--address-file", role.address_file};
}

std::vector<std::string> to_arguments(const AgentRole& role) {
  std::vector<std::string> arguments = {"--weft-role=agent", "--head",    to_string(role.head),         "--name",
                                        role.name,           "--devices", std::to_string(role.devices), "--logs",
                                        role.log_directory};
  if (role.has_parent) arguments.push_back("--has-parent");
  return arguments;
}

std::optional<int> serve_cluster_role(const std::vector<std::string>& arguments) {
  const auto role = role_of(arguments);
  if (role != "head" && role != "agent") return std::nullopt;
  const RoleArguments given(arguments, {"has-parent"});
  if (role == "head") {
    HeadRole head;
    head.listen = Address::parse(given.get("listen"));
    head.state_directory = given.get("state");
    head.address_file = given.get("address-file");
    return serve_head(head);
  }
  AgentRole agent;
  agent.head = Address::parse(given.get("head"));
  agent.name = given.get("name");
  agent.devices = static_cast<std::uint32_t>(given.number("devices"));
  agent.log_directory = given.get("logs");
  agent.has_parent = given.has("has-parent");
  return serve_agent(agent);
}

void log_line(const std::string& text) {
  fmt::print("{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), text);
  std::fflush(stdout);
}

}  // namespace weft::actors
