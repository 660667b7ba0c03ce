// weft head, weft join.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "actors/launch/roles.h"
#include "apps/cli/commands.h"

namespace weft::apps {
namespace {

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "localhost" || host == "::1"; }

std::string state_directory(const HeadOptions& options, const Address& listen) {
  if (!options.state.empty()) return options.state;
  const char* state_home = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = state_home != nullptr
                                         ? std::filesystem::path(state_home)
                                         : std::filesystem::path(home != nullptr ? home : ".") / ".local" / "state";
  return (base / "weft" / std::to_string(listen.port)).string();
}

void print_next_steps(const Address& address) {
  const std::string at = to_string(address);
  fmt::print("Weft's head listens on {}\n", at);
  if (is_loopback(address.host))
    fmt::print("This is loopback only: hosts on other machines cannot join. --listen HOST:PORT changes that.\n");
  else fmt::print("Anybody who reaches this address can join and use the cluster: there is no authentication yet.\n");
  fmt::print(
      "\nNext steps\n"
      "  add a host   weft join {0} --name worker0 --devices 2\n"
      "  run          weft run cluster.yaml --head {0}\n"
      "  look         weft status --head {0}\n"
      "  end it all   weft stop --head {0}\n\n",
      at);
  std::fflush(stdout);
}

}  // namespace

int run_head(const HeadOptions& options) {
  actors::HeadRole role;
  role.listen = Address::parse(options.listen);
  role.state_directory = state_directory(options, role.listen);
  role.on_listening = print_next_steps;
  return actors::serve_head(role);
}

int run_join(const JoinOptions& options) {
  actors::AgentRole role;
  role.head = Address::parse(options.head);
  role.devices = options.devices;
  role.name = options.name;
  if (role.name.empty()) {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    role.name = name;
  }
  role.log_directory = options.logs.empty() ? std::filesystem::absolute(std::filesystem::path("weft-logs") / role.name).string()
                                            : std::filesystem::absolute(options.logs).string();
  return actors::serve_agent(role);
}

}  // namespace weft::apps
