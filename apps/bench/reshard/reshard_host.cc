#include "apps/bench/reshard/reshard_host.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "apps/bench/reshard/pattern.h"
#include "core/base/error.h"
#include "transfer/reshard/repair.h"
#include "transfer/wires/make_wire.h"

namespace weft::apps {
namespace {

std::int64_t nanoseconds_of(TimePoint time) { return time.time_since_epoch().count(); }
TimePoint time_of(std::int64_t nanoseconds) { return TimePoint(Nanoseconds(nanoseconds)); }
Nanoseconds duration_of(double seconds) {
  return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Collector of the engines' reports of one run. Usable from any thread.
class Reports {
 public:
  /// Notifies `wakeup` when `expected` reports have arrived.
  Reports(std::size_t expected, actors::Wakeup wakeup)
      : wakeup_(std::move(wakeup)), missing_(expected) {}

  bool complete() {
    std::lock_guard lock(mutex_);
    return missing_ == 0;
  }
  void add(std::size_t device, const transfer::TransferReport& report) {
    std::lock_guard lock(mutex_);
    by_device_.emplace(device, report);
    if (--missing_ == 0) wakeup_.notify();
  }
  /// Call after complete() returned true.
  const std::map<std::size_t, transfer::TransferReport>& by_device() const { return by_device_; }

 private:
  const actors::Wakeup wakeup_;
  std::mutex mutex_;
  std::size_t missing_;                                        // guarded by mutex_
  std::map<std::size_t, transfer::TransferReport> by_device_;  // guarded by mutex_ until complete
};

/// Returns the chunks of a plan that a device has received. A report lists them only after an
/// error.
std::vector<transfer::LandedChunks> landed_of(const transfer::DevicePart& part,
                                              const transfer::TransferReport& report) {
  if (!report.outcome.ok()) return report.landed;
  std::vector<transfer::LandedChunks> landed;
  for (const transfer::FlowRole& stream : part.streams) {
    if (!stream.parent) continue;
    landed.push_back(transfer::LandedChunks::none(stream.flow, stream.num_chunks()));
    for (std::uint32_t chunk = 0; chunk < stream.num_chunks(); ++chunk) landed.back().set(chunk);
  }
  return landed;
}

}  // namespace

ReshardHost::ReshardHost(actors::Context& context) : context_(context) {}
ReshardHost::~ReshardHost() = default;

std::vector<transfer::PeerAddress> ReshardHost::load(HostTask task) {
  parts_.clear();
  devices_.clear();
  task_ = std::move(task);
  std::vector<transfer::PeerAddress> addresses;
  const transfer::WireSettings wire{task_.transport, Secret(task_.secret), task_.interfaces};
  for (std::uint32_t d = 0; d < task_.topology.num_devices(); ++d) {
    const transfer::DeviceId id(d);
    if (task_.topology.host_of(id) != task_.host) continue;
    Device device{id,
                  std::make_unique<transfer::TransferEngine>(
                      transfer::make_wire(id, task_.host, wire), clock_),
                  {},
                  {}};
    for (const transfer::ReshardTask& tensor : task_.tasks) {
      const auto bytes_of = [&](const Region* region) {
        return region == nullptr ? 0 : (region->num_elements()) * size_of(tensor.type.dtype);
      };
      device.sources.emplace_back(bytes_of(tensor.source_region_of(id)));
      device.destinations.emplace_back(bytes_of(tensor.destination.region_of(id)));
    }
    addresses.push_back({id, task_.host, device.engine->address()});
    devices_.push_back(std::move(device));
  }
  return addresses;
}

void ReshardHost::connect(const std::vector<transfer::PeerAddress>& engines) {
  for (const Device& device : devices_)
    for (const transfer::PeerAddress& peer : engines)
      if (peer.device != device.id) device.engine->connect(peer.device, peer.host, peer.address);
}

std::string ReshardHost::keep_parts(const std::string& strategy,
                                    const transfer::ReshardPlan& plan) {
  std::vector<transfer::DevicePart>& parts = parts_[strategy];
  parts.clear();
  for (const Device& device : devices_) parts.push_back(plan.device_part(device.id));
  return plan.digest();
}

std::string ReshardHost::plan(const std::string& strategy) {
  return keep_parts(strategy, plan_reshard(task_.tasks, task_.topology, task_.network,
                                           transfer::parse_strategy(strategy)));
}

std::string ReshardHost::plan_repair(const RepairRequest& request) {
  return keep_parts(kRepair, plan_repair_of(task_, request));
}

transfer::ReshardPlan plan_repair_of(const HostTask& task, const RepairRequest& request) {
  const auto plan = plan_reshard(task.tasks, task.topology, task.network,
                                 transfer::parse_strategy(request.strategy));
  std::vector<transfer::LandedReport> landed;
  for (const ReceivedChunks& device : request.landed)
    landed.push_back({device.device, device.flows});
  return transfer::plan_repair(plan, landed, request.dead_devices, task.network);
}

void ReshardHost::fill(std::uint32_t repetition) {
  for (Device& device : devices_) {
    for (std::uint32_t i = 0; i < task_.tasks.size(); ++i) {
      const transfer::ReshardTask& tensor = task_.tasks[i];
      if (const Region* region = tensor.source.region_of(device.id)) {
        const auto fill_one = tensor.addends.empty() ? fill_pattern : fill_term;
        fill_one({i, repetition}, tensor.type, *region, device.sources[i]);
      }
      for (std::uint32_t a = 0; a < tensor.addends.size(); ++a) {
        if (const Region* region = tensor.addends[a].region_of(device.id))
          fill_term({i, repetition, a + 1}, tensor.type, *region, device.sources[i]);
      }
      std::fill(device.destinations[i].begin(), device.destinations[i].end(), std::byte{0xee});
    }
  }
}

ReshardHost::Buffers ReshardHost::buffers_of(Device& device, const transfer::DevicePart& part) {
  Buffers buffers;
  for (std::size_t t = 0; t < part.tensors.size(); ++t) {
    // A repair plan has each tensor twice: the original, and the part that has landed in the
    // destination.
    const transfer::TensorPart& tensor = part.tensors[t];
    const std::size_t buffer = t % task_.tasks.size();
    auto& source = t < task_.tasks.size() ? device.sources[buffer] : device.destinations[buffer];
    buffers.sources.push_back(tensor.source ? std::span<const std::byte>(source)
                                            : std::span<const std::byte>());
    buffers.destinations.push_back(tensor.destination
                                       ? std::span<std::byte>(device.destinations[buffer])
                                       : std::span<std::byte>());
  }
  return buffers;
}

actors::task<RunReply> ReshardHost::run(RunRequest request) {
  const auto found = parts_.find(request.strategy);
  if (found == parts_.end())
    throw_error(ErrorCode::kFailedPrecondition, "{} has no plan for strategy {}", context_.name(),
                request.strategy);
  const std::vector<transfer::DevicePart>& parts = found->second;
  const transfer::TransferId id{request.run, 0, 0, 0};
  const auto busy =
      std::count_if(parts.begin(), parts.end(), [](const auto& part) { return !part.empty(); });
  RunReply reply;
  if (busy == 0) co_return reply;
  const actors::Wakeup wakeup = context_.make_wakeup();
  // Shared with the engines' threads.
  const auto reports = std::make_shared<Reports>(static_cast<std::size_t>(busy), wakeup);
  std::vector<Buffers> buffers;
  for (std::size_t i = 0; i < devices_.size(); ++i)
    buffers.push_back(buffers_of(devices_[i], parts[i]));
  const transfer::TransferLimits limits{duration_of(request.deadline_seconds)};

  co_await context_.sleep(time_of(request.start_ns) - clock_.now());
  const double cpu_before = cpu_seconds();
  reply.started_ns = nanoseconds_of(clock_.now());
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (parts[i].empty()) continue;
    devices_[i].engine->start(
        parts[i], id, buffers[i].sources, buffers[i].destinations, limits,
        [reports, i](const transfer::TransferReport& report) { reports->add(i, report); });
  }
  while (!reports->complete()) {
    if (request.kill_at_ns == 0) {
      co_await wakeup.wait();
    } else {
      const bool notified = co_await wakeup.wait_for(time_of(request.kill_at_ns) - clock_.now());
      if (!notified) ::kill(::getpid(), SIGKILL);
    }
  }
  for (const auto& [i, report] : reports->by_device()) {
    reply.finished_ns = std::max(reply.finished_ns, nanoseconds_of(report.finished));
    if (!report.outcome.ok() && reply.failure.empty())
      reply.failure = report.outcome.error().describe();
    reply.landed.push_back({devices_[i].id, landed_of(parts[i], report)});
  }
  if (reply.failure.empty()) reply.landed.clear();
  reply.cpu_seconds = cpu_seconds() - cpu_before;
  co_return reply;
}

std::vector<std::string> ReshardHost::differences(std::uint32_t repetition) {
  std::vector<std::string> found;
  for (const Device& device : devices_) {
    for (std::uint32_t i = 0; i < task_.tasks.size(); ++i) {
      const transfer::ReshardTask& tensor = task_.tasks[i];
      const Region* region = tensor.destination.region_of(device.id);
      if (region == nullptr) continue;
      const auto terms = static_cast<std::uint32_t>(1 + tensor.addends.size());
      const std::vector<std::byte>& box = device.destinations[i];
      if (const auto difference =
              terms == 1 ? find_difference({i, repetition}, tensor.type, *region, box)
                         : find_wrong_sum({i, repetition}, terms, tensor.type, *region, box))
        found.push_back(fmt::format("device {}: {}", device.id, *difference));
    }
  }
  return found;
}

InterfaceBytes ReshardHost::interface_bytes() {
  InterfaceBytes sum;
  const auto read = [](const std::filesystem::path& path) {
    std::uint64_t value = 0;
    std::ifstream(path) >> value;
    return value;
  };
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    if (!entry.path().filename().string().starts_with("eth")) continue;
    sum.sent += read(entry.path() / "statistics/tx_bytes");
    sum.received += read(entry.path() / "statistics/rx_bytes");
  }
  return sum;
}

std::vector<actors::Address> ReshardHost::listen_for_probe(
    const std::vector<std::string>& addresses) {
  probe_.reset();
  probe_ = std::make_unique<TcpProbe>(addresses);
  return probe_->listening();
}

actors::task<std::vector<double>> ReshardHost::probe(RateProbe request) {
  if (!probe_)
    throw_error(ErrorCode::kFailedPrecondition, "listen_for_probe() comes before probe()");
  const actors::Wakeup wakeup = context_.make_wakeup();
  std::vector<double> rates;
  std::optional<Error> failure;
  {
    const std::jthread thread([&] {
      try {
        rates =
            probe_->run(request.targets, time_of(request.start_ns), duration_of(request.seconds));
      } catch (...) {
        failure = current_error();
      }
      wakeup.notify();
    });
    co_await wakeup.wait();
  }
  if (failure) throw *failure;
  co_return rates;
}

}  // namespace weft::apps
