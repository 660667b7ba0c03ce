// Times the transfer engine between two processes, over tcp and over shared memory, beside a plain
// socket and memcpy.
//
// transfer_latency [--small] [--json]: this process is device 0, a child is device 1. Each round
// starts in the callback of the round before, so that no hand-over to another thread is timed.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"
#include "tests/support/cluster_token.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::bench {
namespace {

using namespace transfer;
using Seconds = std::chrono::duration<double>;

struct Figure {
  std::string what, path;
  std::size_t bytes;
  double seconds;  // one way, or one collective
};

void write_all(int fd, const void* data, std::size_t size) {
  for (const auto* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::write(fd, at, size);
    WEFT_CHECK(n > 0);
    at += n;
    size -= n;
  }
}
void read_all(int fd, void* data, std::size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    const ssize_t n = ::read(fd, at, size);
    WEFT_CHECK(n > 0);
    at += n;
    size -= n;
  }
}

std::size_t rounds_for(std::size_t bytes, bool small) {
  if (small) return 4;
  return std::clamp<std::size_t>((64u << 20) / (bytes + 1), 4, 500);
}

/// Returns the best of several trials: other load on the machine only adds time.
double best_of(bool small, const std::function<double()>& trial) {
  double best = trial();
  for (int i = 1; i < (small ? 1 : 7); ++i) best = std::min(best, trial());
  return best;
}

/// Consecutive rounds of transfers, on one side. Begins round i + 1 when all of round i has ended.
class Rounds {
 public:
  Rounds(TransferEngine& engine, std::uint64_t epoch, std::size_t count,
         std::function<void(Rounds&, std::uint64_t)> begin)
      : engine_(engine), epoch_(epoch), count_(count), begin_(std::move(begin)) {}

  double run() {
    const auto started = std::chrono::steady_clock::now();
    begin_(*this, 0);
    done_.get_future().wait();
    return Seconds(std::chrono::steady_clock::now() - started).count() / count_;
  }
  /// Starts a part of round `round`. `then` is called at its end.
  void start(const DevicePart& part, std::uint32_t op, std::uint64_t round,
             std::span<const std::byte> source, std::span<std::byte> destination,
             std::function<void()> then) {
    engine_.start(part, {epoch_, round, op, 0}, {&source, 1}, {&destination, 1},
                  {std::chrono::seconds(60)},
                  [then = std::move(then)](const TransferReport& report) {
                    WEFT_CHECK(report.outcome.ok(), "{}", report.outcome.error().describe());
                    then();
                  });
  }
  void end(std::uint64_t round) {
    if (round + 1 == count_) done_.set_value();
    else begin_(*this, round + 1);
  }

 private:
  TransferEngine& engine_;
  const std::uint64_t epoch_;
  const std::size_t count_;
  std::function<void(Rounds&, std::uint64_t)> begin_;
  std::promise<void> done_;
};

/// Measures everything between devices 0 and 1. Both sides run this in step.
std::vector<Figure> measure(std::uint32_t self, Path path, int socket, bool small) {
  const Topology topology = path == Path::kTcp ? Topology::dense({1, 1}) : Topology::dense({2});
  const DeviceId own(self), other(1 - self);
  SteadyClock clock;
  TransferEngine engine(make_ucx_wire(own, topology.host_of(own),
                                      {.secret = test::cluster_token(), .interfaces = "lo"}),
                        clock);
  const auto address = engine.address();
  std::uint64_t size = address.size();
  write_all(socket, &size, sizeof(size));
  write_all(socket, address.data(), address.size());
  read_all(socket, &size, sizeof(size));
  std::vector<std::byte> peer_address(size);
  read_all(socket, peer_address.data(), size);
  engine.connect(other, topology.host_of(other), peer_address);

  std::vector<Figure> figures;
  std::uint64_t epoch = 1;
  const std::vector<std::size_t> sizes =
      small ? std::vector<std::size_t>{8, 100 << 10}
            : std::vector<std::size_t>{8, 4 << 10, 100 << 10, 1 << 20, 16 << 20, 64 << 20};
  for (const std::size_t bytes : sizes) {
    const Shape shape = {static_cast<std::int64_t>(bytes)};
    const Region whole = Region::whole(shape);
    const auto part = [&](std::uint32_t from) {
      return plan_reshard({{DType::kU8, shape},
                           {shape, {{DeviceId(from), whole}}},
                           {shape, {{DeviceId(1 - from), whole}}}},
                          topology, ReshardAlgorithm::kBroadcast)
          .device_part(own);
    };
    const DevicePart ping = part(0), pong = part(1);
    std::vector<std::byte> out(bytes), in(bytes);
    // Device 0 sends and waits for the reply of device 1. The receive of the next round is posted
    // before it is needed.
    const auto begin = [&](Rounds& rounds, std::uint64_t round) {
      if (self == 0) {
        rounds.start(pong, 2, round, {}, in, [&rounds, round] { rounds.end(round); });
        rounds.start(ping, 1, round, out, {}, [] {});
      } else {
        rounds.start(ping, 1, round, {}, in, [&, round] {
          rounds.start(pong, 2, round, out, {}, [&rounds, round] { rounds.end(round); });
        });
      }
    };
    Rounds(engine, epoch++, small ? 2 : 10, begin).run();
    const auto trial = [&] {
      return Rounds(engine, epoch++, rounds_for(bytes, small), begin).run() / 2;
    };
    figures.push_back({"ping", std::string(to_string(path)), bytes, best_of(small, trial)});
  }
  for (const std::size_t bytes : sizes) {
    const auto plan =
        plan_all_reduce(DType::kF32, Region({{0, static_cast<std::int64_t>(bytes / 4)}}),
                        {DeviceId(0), DeviceId(1)}, topology);
    const DevicePart part = plan.device_part(own);
    std::vector<std::byte> buffer(bytes);
    const auto begin = [&](Rounds& rounds, std::uint64_t round) {
      rounds.start(part, 1, round, buffer, buffer, [&rounds, round] { rounds.end(round); });
    };
    Rounds(engine, epoch++, small ? 2 : 10, begin).run();
    const auto trial = [&] {
      return Rounds(engine, epoch++, rounds_for(bytes, small), begin).run();
    };
    figures.push_back({"all_reduce", std::string(to_string(path)), bytes, best_of(small, trial)});
  }
  // Both sides must have received everything before either exits.
  char byte = 0;
  write_all(socket, &byte, 1);
  read_all(socket, &byte, 1);
  return figures;
}

/// Returns a blocking TCP connection over loopback.
int tcp_pair(int port_channel, bool listens) {
  if (listens) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    const timeval within{20, 0};  // limits accept(): the other side may have failed
    WEFT_CHECK(::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof(within)) == 0);
    WEFT_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               ::listen(listener, 1) == 0);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    write_all(port_channel, &address, sizeof(address));
    const int connection = ::accept(listener, nullptr, nullptr);
    WEFT_CHECK(connection >= 0);
    ::close(listener);
    return connection;
  }
  sockaddr_in address = {};
  read_all(port_channel, &address, sizeof(address));
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  WEFT_CHECK(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return connection;
}

std::vector<Figure> measure_socket(std::uint32_t self, int socket, bool small) {
  const int connection = tcp_pair(socket, self == 0);
  const int one = 1;
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<Figure> figures;
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{4} << 10, std::size_t{100} << 10, std::size_t{1} << 20,
        std::size_t{16} << 20, std::size_t{64} << 20}) {
    std::vector<std::byte> buffer(bytes);
    const std::size_t rounds = rounds_for(bytes, small);
    const auto trial = [&] {
      const auto started = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < rounds; ++i) {
        if (self == 0) write_all(connection, buffer.data(), bytes);
        read_all(connection, buffer.data(), bytes);
        if (self == 1) write_all(connection, buffer.data(), bytes);
      }
      return Seconds(std::chrono::steady_clock::now() - started).count() / rounds / 2;
    };
    figures.push_back({"ping", "plain socket", bytes, best_of(small, trial)});
  }
  ::close(connection);
  return figures;
}

std::vector<Figure> measure_memcpy(bool small) {
  std::vector<Figure> figures;
  for (const std::size_t bytes : {std::size_t{100} << 10, std::size_t{1} << 20,
                                  std::size_t{16} << 20, std::size_t{64} << 20}) {
    std::vector<std::byte> from(bytes), to(bytes);
    const std::size_t rounds = rounds_for(bytes, small);
    const auto trial = [&] {
      const auto started = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < rounds; ++i) {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" : : "r"(to.data()) : "memory");
      }
      return Seconds(std::chrono::steady_clock::now() - started).count() / rounds;
    };
    figures.push_back({"copy", "memcpy", bytes, best_of(small, trial)});
  }
  return figures;
}

int run(bool small, bool json) {
  int sockets[2];
  WEFT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  const pid_t child = ::fork();  // before this process has threads or uses UCX
  WEFT_CHECK(child >= 0);
  const std::uint32_t self = child == 0 ? 1 : 0;
  const int socket = sockets[self];
  ::close(sockets[1 - self]);
  std::vector<Figure> figures;
  const auto add = [&](std::vector<Figure> more) {
    figures.insert(figures.end(), more.begin(), more.end());
  };
  add(measure_socket(self, socket, small));
  add(measure(self, Path::kTcp, socket, small));
  add(measure(self, Path::kSharedMemory, socket, small));
  if (self == 1) return 0;
  add(measure_memcpy(small));
  int status = 0;
  ::waitpid(child, &status, 0);
  for (const Figure& figure : figures) {
    const double mib_per_second = figure.bytes / figure.seconds / (1 << 20);
    if (json) {
      fmt::print(
          "{{\"what\":\"{}\",\"path\":\"{}\",\"bytes\":{},\"seconds\":{:.9f},\"mib_per_second\":{:."
          "1f}}}\n",
          figure.what, figure.path, figure.bytes, figure.seconds, mib_per_second);
    } else {
      fmt::print("{:10} {:12} {:>8}  {:>10}  {:9.1f} MiB/s\n", figure.what, figure.path,
                 format_bytes(figure.bytes), format_seconds(figure.seconds), mib_per_second);
    }
  }
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  bool small = false, json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--small") small = true;
    else if (argument == "--json") json = true;
    else {
      fmt::print(stderr, "usage: transfer_latency [--small] [--json]\n");
      return 2;
    }
  }
  return weft::bench::run(small, json);
}
