#include "transfer/execute/transfer_engine.h"

#include <chrono>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "transfer/execute/internal/active_transfer.h"
#include "transfer/execute/internal/transfer_dispatcher.h"

namespace weft::transfer {
namespace {

/// Time that the destructor allows a wire to end messages on the connections that it cut.
constexpr Nanoseconds kCutTimeout = std::chrono::seconds(2);

}  // namespace

TransferEngine::TransferEngine(std::unique_ptr<Wire> wire, const Clock& clock,
                               EngineOptions options)
    : options_(std::move(options)),
      wire_(std::move(wire)),
      dispatcher_(std::make_unique<TransferDispatcher>(*wire_, clock, options_)) {
  if (options_.mode == EngineOptions::Mode::kThreaded)
    thread_ = Thread("transfers", ThreadPriority::kOrdinary, [this] { run(); });
}

TransferEngine::~TransferEngine() {
  submit([](TransferDispatcher& dispatcher) {
    dispatcher.cancel_all(Error(ErrorCode::kCancelled, "the transfer engine is shutting down"));
  });
  stopping_ = true;
  wire_->wake();
  if (thread_.joinable()) thread_.join();
  else run();
  // Destroys the wire before the dispatcher, which must not be called after its own destruction.
  wire_.reset();
}

DeviceId TransferEngine::self() const { return wire_->self(); }
std::vector<std::byte> TransferEngine::address() const { return wire_->address(); }
EngineCounters TransferEngine::counters() const { return dispatcher_->counters(); }
std::uint64_t TransferEngine::network_bytes_received() const {
  return wire_->network_bytes_received();
}

void TransferEngine::connect(DeviceId peer, HostId host, std::vector<std::byte> address) {
  submit([peer, host, address = std::move(address)](TransferDispatcher& dispatcher) {
    dispatcher.connect(peer, host, address);
  });
}

void TransferEngine::start(const DevicePart& part, const TransferId& id,
                           std::span<const std::span<const std::byte>> sources,
                           std::span<const std::span<std::byte>> destinations,
                           const TransferLimits& limits, Callback callback) {
  if (part.device != self()) {
    throw_error(ErrorCode::kInvalidArgument, "a part for device {} was started on device {}",
                part.device, self());
  }
  if (sources.size() != part.tensors.size() || destinations.size() != part.tensors.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} sources and {} destinations; the part has {} tensors", to_string(id),
                sources.size(), destinations.size(), part.tensors.size());
  }
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const TensorPart& tensor = part.tensors[i];
    if (sources[i].size() == tensor.source_bytes() &&
        destinations[i].size() == tensor.destination_bytes())
      continue;
    throw_error(ErrorCode::kInvalidArgument,
                "{}: source {} and destination {} bytes for tensor {}; the part needs {} and {}",
                to_string(id), sources[i].size(), destinations[i].size(), i, tensor.source_bytes(),
                tensor.destination_bytes());
  }
  TransferBuffers buffers{{sources.begin(), sources.end()},
                          {destinations.begin(), destinations.end()}};
  MakeWork make = [&part, id, buffers = std::move(buffers), limits](const TransferContext& context,
                                                                    std::uint64_t order) {
    return std::make_unique<ActiveTransfer>(context, part, id, order, buffers, limits);
  };
  start(id, part.peers(), limits.low_priority, std::move(make), std::move(callback));
}

void TransferEngine::start(const TransferId& id, std::vector<DeviceId> peers, bool low_priority,
                           MakeWork make, Callback callback) {
  WEFT_CHECK(callback != nullptr);
  submit([id, peers = std::move(peers), low_priority, make = std::move(make),
          callback = std::move(callback)](TransferDispatcher& dispatcher) {
    dispatcher.start(id, peers, low_priority, make, callback);
  });
}

void TransferEngine::post(std::function<void()> task) {
  submit([task = std::move(task)](TransferDispatcher&) { task(); });
}

void TransferEngine::cancel_all(Error error) {
  submit(
      [error = std::move(error)](TransferDispatcher& dispatcher) { dispatcher.cancel_all(error); });
}

void TransferEngine::cancel(std::uint64_t epoch, std::uint64_t step, Error error) {
  submit([epoch, step, error = std::move(error)](TransferDispatcher& dispatcher) {
    dispatcher.cancel(epoch, step, error);
  });
}

void TransferEngine::peer_died(DeviceId peer, Error error) {
  submit([peer, error = std::move(error)](TransferDispatcher& dispatcher) {
    dispatcher.peer_died(peer, error);
  });
}

bool TransferEngine::poll() {
  WEFT_CHECK(options_.mode == EngineOptions::Mode::kStepped, "poll() is for stepped engines");
  return run_once();
}

void TransferEngine::submit(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wire_->wake();
}

bool TransferEngine::run_once() {
  std::vector<Command> commands;
  {
    const std::scoped_lock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command(*dispatcher_);
  return dispatcher_->step() != 0 || !commands.empty();
}

void TransferEngine::run() {
  const SteadyClock clock;  // independent of the engine's clock, which tests may stop
  std::optional<TimePoint> give_up;
  bool cut = false;
  while (true) {
    // Reads the flag before the step, so that commands submitted before the stop run before the
    // end.
    const bool stopping = stopping_;
    const bool worked = run_once();
    if (stopping && dispatcher_->idle()) return;
    // A peer may never take the messages that were sent to it.
    if (stopping && !give_up) give_up = clock.now() + options_.shutdown_grace;
    if (stopping && clock.now() > *give_up) {
      if (cut) return;
      cut = true;
      give_up = clock.now() + kCutTimeout;
      dispatcher_->drop_pending_connections();
    }
    if (!worked) wire_->wait(options_.tick);
  }
}

}  // namespace weft::transfer
