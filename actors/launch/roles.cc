#include "actors/launch/roles.h"

#include "actors/launch/access_arguments.h"
#include "actors/launch/child_report.h"
#include "actors/launch/host_capacity.h"
#include "core/base/error.h"

namespace weft::actors {

std::vector<std::string> to_arguments(const HeadRole& role) {
  std::vector<std::string> arguments = {"--weft-role=head",
                                        "--listen",
                                        to_string(role.listen),
                                        "--state",
                                        role.state_directory,
                                        "--said",
                                        role.report_path,
                                        "--log-level",
                                        std::string(to_string(role.log_level)),
                                        "--grace-ms",
                                        std::to_string(role.grace / std::chrono::milliseconds(1))};
  if (role.ignore_saved_members) arguments.push_back("--begins-anew");
  if (role.has_parent) arguments.push_back("--has-parent");
  if (role.insecure) arguments.push_back("--insecure");
  return arguments;
}

std::vector<std::string> to_arguments(const AgentRole& role) {
  std::vector<std::string> arguments = {"--weft-role=agent",
                                        "--head",
                                        to_string(role.head),
                                        "--name",
                                        role.name,
                                        "--devices",
                                        std::to_string(role.devices),
                                        "--logs",
                                        role.log_directory,
                                        "--log-level",
                                        std::string(to_string(role.log_level))};
  if (role.has_parent) arguments.push_back("--has-parent");
  for (std::string& word : to_arguments(role.capacity)) arguments.push_back(std::move(word));
  for (std::string& word : to_arguments(role.protection)) arguments.push_back(std::move(word));
  return arguments;
}

std::optional<int> serve_cluster_role(const std::vector<std::string>& arguments) {
  const auto role = role_of(arguments);
  if (role != "head" && role != "agent") return std::nullopt;
  const RoleArguments given(arguments, {"has-parent", "begins-anew", kInsecureFlag});
  if (role == "head") {
    HeadRole head;
    head.listen = Address::parse(given.get("listen"));
    head.state_directory = given.get("state");
    head.report_path = given.get("said");
    head.token = inherited_token(given);
    head.log_level = parse_log_level(given.get("log-level"));
    head.grace = std::chrono::milliseconds(given.number("grace-ms"));
    head.ignore_saved_members = given.has("begins-anew");
    head.has_parent = given.has("has-parent");
    head.insecure = given.has(kInsecureFlag);
    try {
      return serve_head(head);
    } catch (...) {
      write_child_report(head.report_path, current_error().message());
      throw;
    }
  }
  AgentRole agent;
  agent.head = Address::parse(given.get("head"));
  agent.token = inherited_token(given);
  agent.name = given.get("name");
  agent.devices = given.number("devices");
  agent.log_directory = given.get("logs");
  agent.capacity = host_capacity_of(given);
  agent.has_parent = given.has("has-parent");
  agent.log_level = parse_log_level(given.get("log-level"));
  agent.protection = connection_security_of(given);
  return serve_agent(agent);
}

}  // namespace weft::actors
