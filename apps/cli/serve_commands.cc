// weft head, weft join.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/access/connection_security.h"
#include "actors/access/token.h"
#include "actors/access/user_state.h"
#include "actors/launch/host_capacity.h"
#include "actors/launch/roles.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/name.h"
#include "core/base/terminal.h"
#include "core/network/interface_address.h"

namespace weft::apps {
namespace {

std::string state_directory(const HeadOptions& options, const actors::Address& listen) {
  if (!options.state.empty()) return options.state;
  return (actors::user_state_directory() / std::to_string(listen.port)).string();
}

/// Prints text, wrapped by words on a terminal.
void say_prose(const std::string& text) {
  say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, text, 0));
}

/// Prints that other machines cannot reach the head, and the address to use instead. `asked` is the
/// host as typed.
void warn_loopback_only(const std::string& asked, const actors::Address& bound,
                        const std::vector<InterfaceAddress>& own) {
  const auto others = reachable_addresses("0.0.0.0", own);
  const std::string name =
      asked == bound.host || is_wildcard_address(bound.host)
          ? ""
          : fmt::format(" '{}' stands for {} on this machine (see /etc/hosts).", asked, bound.host);
  const bool none = others.empty() || is_loopback_address(others.front().address);
  say_prose(fmt::format(
      "This is loopback only: hosts on other machines cannot join.{} --listen {} changes that.\n",
      name, none ? "HOST:PORT" : to_string(actors::Address{others.front().address, bound.port})));
}

/// `asked` is the host as typed; `bound` is the address that the head listens on.
void print_next_steps(const std::string& asked, const actors::Address& bound,
                      const std::filesystem::path& token_file, const std::string& certificate) {
  const std::vector<InterfaceAddress> own = interface_addresses();
  std::vector<std::string> reached;
  bool only_loopback = true;
  say(stdout, "Weft's head listens on {}\n", to_string(bound));
  for (const InterfaceAddress& address : reachable_addresses(bound.host, own)) {
    reached.push_back(to_string(actors::Address{address.address, bound.port}));
    only_loopback = only_loopback && actors::is_loopback(address.address);
    if (is_wildcard_address(bound.host))
      say(stdout, "  reached at {} ({})\n", reached.back(), address.interface);
  }
  if (reached.empty()) reached.push_back(to_string(bound));  // no interface is up
  if (only_loopback) warn_loopback_only(asked, bound, own);
  say_prose(fmt::format(
      "Its token is in {}. Commands of this user on this machine find it by the port; elsewhere "
      "give a copy, readable by its owner alone, with --token-file FILE. Whoever has it can run "
      "programs here.\n",
      token_file.string()));
  say(stdout, "\nNext steps\n");
  for (std::size_t i = 0; i < reached.size(); ++i)
    say(stdout, "  {}   weft join {} --name worker0 --devices 2{}\n",
        i == 0 ? "add a host" : "        or", reached[i],
        certificate.empty() ? "" : " --cert sha256:" + certificate);
  say(stdout,
      "  run          weft run cluster.yaml --head {0}\n"
      "  look         weft status --head {0}\n"
      "  end it all   weft stop --head {0}\n\n",
      reached.front());
  std::fflush(stdout);
}

}  // namespace

int run_head(const HeadOptions& options) {
  actors::HeadRole role;
  role.listen = actors::Address::parse(options.listen);
  role.state_directory = state_directory(options, role.listen);
  role.grace = std::chrono::milliseconds(std::llround(options.grace * 1000));
  role.on_listening = [asked = role.listen.host](const actors::Address& bound,
                                                 const std::filesystem::path& token_file,
                                                 const std::string& certificate) {
    print_next_steps(asked, bound, token_file, certificate);
  };
  role.insecure = options.insecure;
  return actors::serve_head(role);
}

int run_join(const JoinOptions& options) {
  actors::AgentRole role;
  role.head = actors::Address::parse(options.head);
  if (is_wildcard_address(role.head.host))
    throw_error(ErrorCode::kInvalidArgument,
                "{} is an address to listen at; give the one at which the head is reached, which "
                "`weft head` prints",
                options.head);
  role.devices = options.devices;
  role.name = options.name;
  role.capacity.cpus = options.cpus;
  role.capacity.memory = options.memory;
  for (const std::string& text : options.resources) actors::add_resource(role.capacity, text);
  for (const std::string& text : options.labels) actors::add_label(role.capacity, text);
  role.grace = std::chrono::milliseconds(std::llround(options.grace * 1000));
  if (role.name.empty()) role.name = machine_name();
  check_name("the name of this host (--name)", role.name);
  role.token = actors::find_token(role.head, options.token_file, std::chrono::seconds(10),
                                  "weft join HOST:PORT, as weft head prints it");
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
