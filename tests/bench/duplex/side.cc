#include "tests/bench/duplex/side.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/units.h"
#include "tests/bench/duplex/channel.h"
#include "tests/bench/duplex/engine_carrier.h"
#include "tests/bench/duplex/plain_sockets.h"
#include "tests/bench/duplex/streams.h"

namespace weft::bench {
namespace {

/// Result for one direction of the link. A value.
struct Direction {
  /// Payload bytes divided by the link's capacity from the first start to the last end.
  double utilisation = 0;
  /// Mean time from a tensor's start to its arrival, divided by its time at full rate.
  double slowness = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Side final {
 public:
  explicit Side(const SideOptions& options) : options_(options), channel_(options.channel) {}

  void run() {
    for (const std::uint64_t bytes : options_.tensor_bytes) {
      using Connections = PlainSockets::Connections;
      {
        PlainSockets sockets(options_.self, options_.addresses, channel_, Connections::kEach);
        all_cases("sockets, one each way", sockets, bytes, true);
      }
      {
        PlainSockets sockets(options_.self, options_.addresses, channel_, Connections::kOne);
        all_cases("one socket", sockets, bytes, false);
      }
      EngineCarrier engine(options_.self, options_.bytes_per_second, channel_);
      all_cases("weft", engine, bytes, true);
      channel_.common_start();  // both sides must be done before either exits
    }
  }

 private:
  /// Measures all cases. `single`: also one tensor at a time.
  void all_cases(const char* carrier_name, Carrier& carrier, std::uint64_t bytes, bool single) {
    const double wire_seconds = bytes / options_.bytes_per_second;
    const auto count =
        static_cast<std::uint32_t>(std::max(2.0, std::ceil(options_.seconds / wire_seconds)));
    const Stream none{bytes, 0, 2}, full{bytes, count, 2},
        singly{bytes, std::max(2u, count / 2), 1};
    measure(carrier, full, full);  // warm-up: new connections are slow
    report(carrier_name, "one way", bytes, measure(carrier, full, none));
    report(carrier_name, "both ways", bytes, measure(carrier, full, full));
    if (!single) return;
    report(carrier_name, "single tensors", bytes, measure(carrier, none, singly));
    report(carrier_name, "single against full", bytes, measure(carrier, full, singly));
  }

  /// Streams from side 0 to side 1 (`there`) and back. Returns medians, by direction.
  std::array<Direction, 2> measure(Carrier& carrier, const Stream& there, const Stream& back) {
    std::array<std::vector<double>, 2> utilisations, slownesses;
    for (int i = 0; i < options_.repeat; ++i) {
      const Times own = options_.self == 0 ? carrier.run(there, back, channel_.common_start())
                                           : carrier.run(back, there, channel_.common_start());
      const Times other{channel_.exchange(own.started), channel_.exchange(own.ended)};
      const Times& zero = options_.self == 0 ? own : other;
      const Times& one = options_.self == 0 ? other : own;
      for (int way = 0; way < 2; ++way) {
        const Stream& stream = way == 0 ? there : back;
        if (stream.count == 0) continue;
        const auto& started = (way == 0 ? zero : one).started;
        const auto& ended = (way == 0 ? one : zero).ended;
        const double wire_seconds = stream.bytes / options_.bytes_per_second;
        utilisations[way].push_back(wire_seconds * stream.count /
                                    (1e-9 * (ended.back() - started.front())));
        double sum = 0;
        for (std::size_t k = 0; k < ended.size(); ++k) sum += 1e-9 * (ended[k] - started[k]);
        slownesses[way].push_back(sum / stream.count / wire_seconds);
      }
    }
    std::array<Direction, 2> result;
    for (int way = 0; way < 2; ++way)
      if (!utilisations[way].empty())
        result[way] = {median(utilisations[way]), median(slownesses[way])};
    return result;
  }

  void report(const char* carrier, const char* what, std::uint64_t bytes,
              const std::array<Direction, 2>& ways) const {
    if (options_.self != 0) return;
    const double mbits = options_.bytes_per_second * 8e-6;
    if (options_.json) {
      fmt::print(
          "{{\"payload_mbits\":{:.1f},\"tensor_bytes\":{},\"carrier\":\"{}\",\"case\":\"{}\","
          "\"utilisation\":[{:.4f},{:.4f}],"
          "\"slowness\":[{:.3f},{:.3f}]}}\n",
          mbits, bytes, carrier, what, ways[0].utilisation, ways[1].utilisation, ways[0].slowness,
          ways[1].slowness);
    } else {
      const auto text = [](double value) {
        return value == 0 ? std::string("-") : fmt::format("{:.3f}", value);
      };
      fmt::print("{:7.1f} Mbit/s {:>9}  {:22} {:20} {:>6} {:>6}  {:>6} {:>6}\n", mbits,
                 format_bytes(bytes), carrier, what, text(ways[0].utilisation),
                 text(ways[1].utilisation), text(ways[0].slowness), text(ways[1].slowness));
    }
    std::fflush(stdout);
  }

  const SideOptions options_;
  const Channel channel_;
};

}  // namespace

void run_side(const SideOptions& options) { Side(options).run(); }

}  // namespace weft::bench
