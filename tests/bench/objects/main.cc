// Times objects: one that many processes of a host map, beside one memcpy; and one that goes to
// several hosts, beside the limit of their links.
//
// objects [--map-mib 64] [--processes 64] [--pull-mib 256] [--hosts 8] [--link 500mbit]
// [--repeats 3] [--json] [--small]
//
// With --link, the owner and the readers run on test hosts with links of that rate, which needs
// root. Otherwise all hosts share this machine. A link's payload is 1448/1514 of its rate.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/test_hosts.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/objects/objects.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"

namespace weft::bench {
namespace {

using Bytes = std::vector<std::byte>;
using Ref = mesh::ObjectRef<Bytes>;

constexpr int kSkipped = 77;
constexpr double kPayloadShare = 1448.0 / 1514;

struct Options {
  std::uint64_t map_mib = 64, pull_mib = 256;
  int processes = 64, hosts = 8, repeats = 3;
  std::string link;
  bool json = false, small = false;
  std::vector<std::string> serve;  ///< Of a child: address of the parent, own address, name, host.
};

/// Process that puts objects and reads those of others.
class Peer final {
 public:
  explicit Peer(actors::Context& context) : objects_(context) {}

  actors::task<Ref> put(std::uint64_t bytes) {
    owned_.reset();
    auto putting = objects_.put(Bytes(bytes, std::byte{7}));
    owned_ = co_await putting;
    co_return owned_->ref();
  }
  void drop() { owned_.reset(); }
  /// Reads the first and the last byte.
  actors::task<int> read(Ref ref) {
    auto getting = objects_.get(ref);
    const auto view = co_await getting;
    co_return static_cast<int>(view.span().front()) + static_cast<int>(view.span().back());
  }
  /// Copies the object of this process to the hosts of `readers`.
  actors::task<void> share(Ref ref, actors::MeshRef<Peer> readers) {
    auto sharing = objects_.share(ref, readers);
    co_await sharing;
  }
  actors::task<mesh::StoreStatus> status() {
    auto asked = objects_.status();
    co_return co_await asked;
  }

  static constexpr auto endpoints = actors::interface<"bench.object_peer", 1>(
      actors::on<&Peer::put>("put"), actors::on<&Peer::drop>("drop"),
      actors::on<&Peer::read>("read"), actors::on<&Peer::share>("share"),
      actors::on<&Peer::status>("status"));

 private:
  mesh::Objects objects_;
  std::optional<mesh::OwnedObject<Bytes>> owned_;
};

actors::SystemOptions options_of(const std::string& name, const std::string& host) {
  actors::SystemOptions options = test::system_options(name);
  options.log = Log::standard_error(LogLevel::kWarning);
  options.memory_host = host;
  options.object_memory = std::uint64_t{2} << 30;
  return options;
}

int serve(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  actors::System system(options_of(words[2], words[3]));
  system.listen({words[1], 0});
  const auto peer = system.host<Peer>("peer");
  system.connect(actors::Address::parse(words[0]));
  while (true) ::poll(nullptr, 0, 1000);  // until it is killed
}

/// Children of this process, each with a Peer.
class Children final {
 public:
  Children(const std::string& address, const apps::TestHosts* test_hosts)
      : test_hosts_(test_hosts), system_(options_of("bench", "")) {
    own_ = system_.listen({address, 0});
  }
  ~Children() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  actors::System& system() { return system_; }
  /// Starts a process on `host`; on test host `place`, if there are any.
  void start(const std::string& host, int place) {
    const std::string name = fmt::format("peer{}", pids_.size());
    const std::string address = test_hosts_ == nullptr ? "127.0.0.1" : test_hosts_->address(place);
    std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "--serve",
                                      actors::to_string(own_),
                                      address,
                                      name,
                                      host};
    if (test_hosts_ != nullptr) words = test_hosts_->command_on(place, words);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    pids_.push_back(child);
    names_.push_back(name);
  }
  /// Waits until all processes are there, and returns their actors in order.
  std::vector<actors::ActorRef<Peer>> connected() {
    std::vector<actors::ActorRef<Peer>> peers(names_.size());
    const bool all = test::eventually([&] {
      for (const actors::ProcessRef& process : system_.peers()) {
        const auto at = std::ranges::find(names_, process.name) - names_.begin();
        if (at < std::ssize(names_))
          peers[at] = system_.named<Peer>(process, "peer").within(std::chrono::minutes(10));
      }
      return std::ranges::all_of(peers, [](const auto& peer) { return bool(peer); });
    });
    if (!all) throw_error(ErrorCode::kUnavailable, "not all processes have started");
    return peers;
  }

 private:
  const apps::TestHosts* const test_hosts_;
  actors::System system_;
  actors::Address own_;
  std::vector<pid_t> pids_;
  std::vector<std::string> names_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Way in which an object gets to its readers: each pulls; a broadcast to their hosts before they
/// read; one call of the mesh, which does both.
enum class By { kGet, kShare, kCall };

/// Returns the seconds until all readers have read a new object of the owner; the best of several.
double time_reads(const Options& options, const actors::ActorRef<Peer>& owner,
                  const std::vector<actors::ActorRef<Peer>>& readers, std::uint64_t bytes, By by,
                  actors::System& system) {
  actors::MeshRef<Peer>::Addresses addresses;
  for (const auto& reader : readers)
    addresses.push_back(std::make_shared<const actors::ActorAddress>(reader.address()));
  const actors::MeshRef<Peer> mesh(system, "readers", MeshShape({{"reader", std::ssize(readers)}}),
                                   addresses);
  double best = 1e9;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const Ref ref = owner.call<&Peer::put>(bytes).get();
    const auto start = std::chrono::steady_clock::now();
    if (by == By::kShare) owner.call<&Peer::share>(ref, mesh).get();
    std::vector<int> read;
    if (by == By::kCall) {
      read = mesh.within(std::chrono::minutes(10)).call<&Peer::read>(ref).get();
    } else {
      std::vector<actors::Future<int>> reading;
      for (const auto& reader : readers) reading.push_back(reader.call<&Peer::read>(ref));
      for (auto& each : reading) read.push_back(each.get());
    }
    for (const int each : read)
      if (each != 14) throw_error(ErrorCode::kDataLoss, "an object has wrong bytes");
    best = std::min(best, seconds_since(start));
    owner.call<&Peer::drop>().get();
  }
  return best;
}

double time_memcpy(std::uint64_t bytes) {
  const Bytes from(bytes, std::byte{1});
  Bytes to(bytes);
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    best = std::min(best, seconds_since(start));
    if (to[bytes / 2] != std::byte{1}) return 0;
  }
  return best;
}

void measure_map(const Options& options) {
  Children children("127.0.0.1", nullptr);
  for (int i = 0; i <= options.processes; ++i) children.start("host", 0);
  auto peers = children.connected();
  const actors::ActorRef<Peer> owner = peers.front();
  peers.erase(peers.begin());
  const std::uint64_t bytes = options.map_mib << 20;
  const double seconds = time_reads(options, owner, peers, bytes, By::kGet, children.system());
  const double copy = time_memcpy(bytes);
  const auto status = owner.call<&Peer::status>().get();
  if (options.json)
    fmt::print(
        "{{\"what\": \"map\", \"processes\": {}, \"bytes\": {}, \"seconds\": {:.6f}, "
        "\"memcpy\": {:.6f}, \"bytes_sent\": {}}}\n",
        options.processes, bytes, seconds, copy, status.bytes_sent);
  else
    fmt::print("{} mapped by {} processes: {}; one memcpy: {}\n", format_bytes(bytes),
               options.processes, format_seconds(seconds), format_seconds(copy));
}

void measure_pull(const Options& options, const apps::TestHosts* hosts, double rate) {
  Children children(hosts == nullptr ? "127.0.0.1" : hosts->outer_address(), hosts);
  for (int i = 0; i <= options.hosts; ++i) children.start(fmt::format("host{}", i), i);
  auto peers = children.connected();
  const actors::ActorRef<Peer> owner = peers.front();
  peers.erase(peers.begin());
  const std::uint64_t bytes = options.pull_mib << 20;
  time_reads(options, owner, peers, 1 << 20, By::kShare, children.system());  // opens connections
  const double limit = hosts == nullptr ? 0 : static_cast<double>(bytes) / (rate * kPayloadShare);
  for (const By by : {By::kGet, By::kShare, By::kCall}) {
    const double seconds = time_reads(options, owner, peers, bytes, by, children.system());
    const char* const name = by == By::kGet ? "get" : by == By::kShare ? "share" : "call";
    if (options.json)
      fmt::print(
          "{{\"what\": \"{}\", \"hosts\": {}, \"bytes\": {}, \"seconds\": {:.6f}, "
          "\"limit\": {:.6f}}}\n",
          name, options.hosts, bytes, seconds, limit);
    else
      fmt::print("{} to {} hosts by {}: {}{}\n", format_bytes(bytes), options.hosts, name,
                 format_seconds(seconds),
                 hosts == nullptr ? ""
                                  : fmt::format("; {:.3f} of the limit {}", limit / seconds,
                                                format_seconds(limit)));
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Times objects.");
  app.add_option("--map-mib", options.map_mib, "size of the object that is mapped");
  app.add_option("--processes", options.processes, "processes that map it");
  app.add_option("--pull-mib", options.pull_mib, "size of the object that goes to hosts");
  app.add_option("--hosts", options.hosts, "hosts that get it");
  app.add_option("--link", options.link, "rate of each host's link, such as 500mbit; needs root");
  app.add_option("--repeats", options.repeats, "repeats; the best counts");
  app.add_flag("--json", options.json, "prints a line of JSON per figure");
  app.add_flag("--small", options.small, "a quick run");
  app.add_option("--serve", options.serve)->expected(4)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!options.serve.empty()) return serve(options.serve);
  if (options.small) {
    options.map_mib = options.pull_mib = 4;
    options.processes = options.hosts = 3;
    options.repeats = 1;
  }
  std::unique_ptr<apps::TestHosts> hosts;
  double rate = 0;
  if (!options.link.empty()) {
    const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weft-hosts";
    if (const std::string refusal = apps::TestHosts::unsupported_because(tool); !refusal.empty()) {
      fmt::print(stderr, "{}\n", refusal);
      return kSkipped;
    }
    const auto parsed = parse_rate(options.link);
    if (!parsed)
      throw_error(ErrorCode::kInvalidArgument, "'{}' is no rate; write 500mbit", options.link);
    rate = *parsed;
    hosts = std::make_unique<apps::TestHosts>(apps::TestHosts::Options{
        tool, fmt::format("objects-{}", ::getpid()), options.hosts + 1, 1});
    for (int host = 0; host <= options.hosts; ++host)
      hosts->limit(host, 0, static_cast<std::uint64_t>(rate * 8));
  }
  measure_map(options);
  std::fflush(stdout);
  measure_pull(options, hosts.get(), rate);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  try {
    return weft::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "objects: {}\n", error.what());
    return 1;
  }
}
