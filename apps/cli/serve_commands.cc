// weft head, weft join.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "actors/launch/protection.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "apps/cli/commands.h"
#include "core/base/machine.h"
#include "core/base/name.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

std::string state_directory(const HeadOptions& options, const actors::Address& listen) {
  if (!options.state.empty()) return options.state;
  return (actors::user_state_directory() / std::to_string(listen.port)).string();
}

void print_next_steps(const actors::Address& address, const std::filesystem::path& token_file,
                      const std::string& certificate) {
  const std::string at = to_string(address);
  say(stdout, "Weft's head listens on {}\n", at);
  if (actors::is_loopback(address.host))
    say(stdout,
        "This is loopback only: hosts on other machines cannot join. --listen HOST:PORT changes "
        "that.\n");
  say(stdout,
      "Its token is in {}. Commands of this user on this machine find it by the port;\n"
      "elsewhere give a copy, readable by its owner alone, with --token-file FILE. Whoever has it "
      "can run programs here.\n",
      token_file.string());
  say(stdout,
      "\nNext steps\n"
      "  add a host   weft join {0} --name worker0 --devices 2{1}\n"
      "  run          weft run cluster.yaml --head {0}\n"
      "  look         weft status --head {0}\n"
      "  end it all   weft stop --head {0}\n\n",
      at, certificate.empty() ? "" : " --cert sha256:" + certificate);
  std::fflush(stdout);
}

}  // namespace

int run_head(const HeadOptions& options) {
  actors::HeadRole role;
  role.listen = actors::Address::parse(options.listen);
  role.state_directory = state_directory(options, role.listen);
  role.grace = std::chrono::milliseconds(std::llround(options.grace * 1000));
  role.on_listening = print_next_steps;
  role.insecure = options.insecure;
  return actors::serve_head(role);
}

int run_join(const JoinOptions& options) {
  actors::AgentRole role;
  role.head = actors::Address::parse(options.head);
  role.devices = options.devices;
  role.name = options.name;
  if (role.name.empty()) role.name = machine_name();
  check_name("the name of this host (--name)", role.name);
  role.token = actors::find_token(role.head, options.token_file, std::chrono::seconds(10));
  role.protection =
      actors::find_protection(role.head, options.token_file, options.certificate, options.insecure);
  role.log_directory =
      options.logs.empty()
          ? std::filesystem::absolute(std::filesystem::path("weft-logs") / role.name).string()
          : std::filesystem::absolute(options.logs).string();
  role.supervisor = std::filesystem::read_symlink("/proc/self/exe");
  return actors::serve_agent(role);
}

}  // namespace weft::apps
