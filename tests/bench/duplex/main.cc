// Measures how the two directions of a link affect each other. Streams tensors between two hosts
// with shaped links, one way and both ways at once, by Weft's transfer engine and by plain TCP
// sockets.
//
// duplex [--rates 27.5mbit,100mbit,500mbit] [--tensors-kib 1536,4096] [--seconds 2] [--repeat 3]
// [--congestion cubic] [--json] [--small]
//
// Utilisation is the payload divided by the link's capacity in the time, which is 1448/1514 of its
// rate. Needs root for the hosts; exits with status 77 without.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "apps/bench/test_hosts.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "tests/bench/duplex/side.h"

namespace weft::bench {
namespace {

struct Options {
  std::vector<std::string> rates = {"27.5mbit", "100mbit", "500mbit"};
  std::vector<std::uint64_t> tensors_kib = {1536, 4096};
  double seconds = 2;
  int repeat = 3;
  std::string congestion;
  bool json = false;
  // options of a process on a host
  int side = -1;
  int channel = -1;
  std::vector<std::string> addresses;
  double bytes_per_second = 0;
};

constexpr int kSkipped = 77;
constexpr double kPayloadShare = 1448.0 / 1514;

/// Sets the congestion control of new TCP connections in this host's namespace.
void set_congestion_control(const std::string& name) {
  std::ofstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  if (!(file << name << std::flush))
    throw_error(
        ErrorCode::kInvalidArgument,
        "the kernel has no congestion control '{}'; see net.ipv4.tcp_available_congestion_control",
        name);
}

int as_side(const Options& options) {
  if (!options.congestion.empty()) set_congestion_control(options.congestion);
  SideOptions side{static_cast<std::uint32_t>(options.side),
                   options.channel,
                   options.addresses,
                   options.bytes_per_second,
                   {},
                   options.seconds,
                   options.repeat,
                   options.json};
  for (const std::uint64_t kib : options.tensors_kib) side.tensor_bytes.push_back(kib * 1024);
  run_side(side);
  return 0;
}

std::vector<std::string> command_of_side(const Options& options, int side, int channel,
                                         const apps::TestHosts& hosts, double rate) {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "--side",
                                    std::to_string(side),
                                    "--channel",
                                    std::to_string(channel),
                                    "--bytes-per-second",
                                    fmt::format("{:.1f}", rate * kPayloadShare),
                                    "--seconds",
                                    fmt::format("{}", options.seconds),
                                    "--repeat",
                                    std::to_string(options.repeat)};
  if (options.json) words.push_back("--json");
  if (!options.congestion.empty()) words.insert(words.end(), {"--congestion", options.congestion});
  words.push_back("--tensors-kib");
  for (const std::uint64_t kib : options.tensors_kib) words.push_back(std::to_string(kib));
  words.push_back("--addresses");
  for (int host = 0; host < 2; ++host) words.push_back(hosts.address(host));
  return words;
}

pid_t launch(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

int as_parent(const Options& options) {
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weft-hosts";
  if (const std::string refusal = apps::TestHosts::unsupported_because(tool); !refusal.empty()) {
    fmt::print(stderr, "{}\n", refusal);
    return kSkipped;
  }
  apps::TestHosts hosts({tool, fmt::format("duplex-{}", ::getpid()), 2, 1});
  if (!options.json)
    fmt::print("{:14} {:>9}  {:22} {:20} {:^13}  {:^13}\n", "payload", "tensor", "by", "what",
               "utilisation", "time/ideal");
  std::fflush(stdout);
  int failed = 0;
  for (const std::string& text : options.rates) {
    const auto rate = parse_rate(text);
    if (!rate) throw_error(ErrorCode::kInvalidArgument, "'{}' is no rate; write 100mbit", text);
    for (int host = 0; host < 2; ++host)
      hosts.limit(host, 0, static_cast<std::uint64_t>(*rate * 8));
    int channel[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0)
      throw_error(ErrorCode::kResourceExhausted, "no socket pair");
    pid_t children[2];
    for (int side = 0; side < 2; ++side)
      children[side] = launch(
          hosts.command_on(side, command_of_side(options, side, channel[side], hosts, *rate)));
    for (const int fd : channel) ::close(fd);
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      failed += status != 0;
    }
    if (failed > 0) break;
  }
  return failed > 0 ? 1 : 0;
}

int run(int argc, char** argv) {
  Options options;
  bool small = false;
  CLI::App app("What the two directions of a link do to each other");
  app.add_option("--rates", options.rates, "of the link")->delimiter(',');
  app.add_option("--tensors-kib", options.tensors_kib, "sizes of tensors")->delimiter(',');
  app.add_option("--seconds", options.seconds, "of a full link, for each figure");
  app.add_option("--repeat", options.repeat, "medians of so many");
  app.add_option("--congestion", options.congestion,
                 "TCP's congestion control on the hosts; by default this machine's");
  app.add_flag("--json", options.json, "a line for each figure");
  app.add_flag("--small", small, "only to see that it works");
  app.add_option("--side", options.side)->group("");
  app.add_option("--channel", options.channel)->group("");
  app.add_option("--addresses", options.addresses)->group("");
  app.add_option("--bytes-per-second", options.bytes_per_second)->group("");
  CLI11_PARSE(app, argc, argv);
  if (small) {
    options.rates = {"500mbit"};
    options.tensors_kib = {512};
    options.seconds = 0.05;
    options.repeat = 1;
  }
  return options.side >= 0 ? as_side(options) : as_parent(options);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  try {
    return weft::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "duplex: {}\n", error.what());
    return 1;
  }
}
