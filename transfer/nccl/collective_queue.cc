#include "transfer/nccl/collective_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/units.h"

namespace weft::transfer {

CollectiveQueue::CollectiveQueue(DeviceId self, DeviceCollectives& library, Device& device,
                                 const Clock& clock, CollectiveQueueOptions options)
    : self_(self),
      library_(library),
      device_(device),
      clock_(clock),
      options_(options),
      communicators_(self, library, clock, cancellation_),
      stream_(device.create_stream()),
      moved_(clock.now()) {}

CollectiveQueue::~CollectiveQueue() {
  try {
    abort();
  } catch (const Error&) {
    // The device does not become idle. The owner has received errors from its own calls.
  }
}

void CollectiveQueue::open(std::uint64_t epoch, const CommunicatorChanges& changes,
                           std::span<const CommunicatorId> ids) {
  cancellation_.check(epoch);
  if (!pending_.empty() || !idle())
    throw_error(ErrorCode::kFailedPrecondition,
                "device {}: operations are still running; wait for them before open()", self_);
  epoch_ = epoch;
  clear_operations();
  communicators_.apply(epoch, changes, ids, options_.create_timeout);
}

void CollectiveQueue::exchange_bytes(const CommunicatorGroup& group) {
  constexpr std::size_t kApart = 256;
  const std::size_t size = group.size();
  const std::size_t self = *group.rank_of(self_);
  reserve_staging((size + 1) * kApart + size);
  std::byte* const own = staging_.data();
  const auto received = [&](std::size_t peer) { return own + (peer + 1) * kApart; };
  DeviceCommunicator& communicator = communicators_.ready(group, options_.create_timeout);
  const DeviceCall gather{CallKind::kAllGather, DType::kU8, ReduceOp::kSum, 0, 1, own,
                          received(size)};
  communicator.enqueue({&gather, 1}, *stream_);
  communicators_.ready(group, options_.create_timeout);
  std::vector<DeviceCall> calls;
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (peer == self) continue;
    const int rank = peer;
    calls.push_back({CallKind::kSend, DType::kU8, ReduceOp::kSum, rank, 1, own, nullptr});
    calls.push_back(
        {CallKind::kReceive, DType::kU8, ReduceOp::kSum, rank, 1, nullptr, received(peer)});
  }
  communicator.enqueue(calls, *stream_);
  communicators_.ready(group, options_.create_timeout);
}

void CollectiveQueue::connect(std::span<const CommunicatorGroup> groups) {
  for (const CommunicatorGroup& group : groups) {
    if (group.size() < 2 || !group.contains(self_)) continue;
    exchange_bytes(group);
    const auto done = stream_->record();
    const TimePoint begun = clock_.now();
    while (!done->done()) {
      cancellation_.check(epoch_);
      communicators_.check();
      if (clock_.now() - begun > options_.create_timeout) {
        throw_error(ErrorCode::kDeadlineExceeded,
                    "device {}: the communicator {} could not be connected within {}; check that "
                    "all its members run and reach each other",
                    self_, to_string(group),
                    format_seconds(std::chrono::duration<double>(options_.create_timeout).count()));
      }
      cancellation_.pause(std::chrono::microseconds(50));
    }
  }
}

void CollectiveQueue::shrink(std::uint64_t epoch, std::span<const DeviceId> dead) {
  cancellation_.check(epoch);
  epoch_ = epoch;
  pending_.clear();
  communicators_.shrink(epoch, dead, options_.create_timeout);
  stop_stream();
  clear_operations();
}

void CollectiveQueue::reserve_staging(std::uint64_t bytes) {
  if (bytes <= staging_.size()) return;
  DeviceMemory larger = device_.allocate(bytes);
  if (staging_.data() != nullptr) retired_staging_.push_back(std::move(staging_));
  staging_ = std::move(larger);
}

void CollectiveQueue::begin(std::vector<OperationKey> order) {
  cancellation_.check(epoch_);
  if (next_ != order_.size()) {
    throw_error(ErrorCode::kFailedPrecondition,
                "device {}: operation {} of the previous execution was not started", self_,
                to_string(order_[next_]));
  }
  if (idle()) retired_staging_.clear();
  queued_.clear();
  order_ = std::move(order);
  expected_ = {order_.begin(), order_.end()};
  next_ = oldest_ = 0;
  moved_ = clock_.now();
}

void CollectiveQueue::start(const OperationKey& key, const DeviceOperations& part,
                            std::span<const std::span<const std::byte>> sources,
                            std::span<const std::span<std::byte>> destinations,
                            std::unique_ptr<Event> ready) {
  cancellation_.check(epoch_);
  if (!expected_.contains(key) || queued_.contains(key) || pending_.contains(key)) {
    throw_error(ErrorCode::kInvalidArgument, "device {} starts {}, which {}", self_, to_string(key),
                expected_.contains(key) ? "it has started before"
                                        : "is not in the order of this execution");
  }
  const auto sizes = [](const auto& buffers) {
    std::vector<std::uint64_t> result;
    for (const auto& buffer : buffers) result.push_back(buffer.size());
    return result;
  };
  if (sizes(sources) != part.source_bytes || sizes(destinations) != part.destination_bytes)
    throw_error(ErrorCode::kInvalidArgument, "device {}: the buffers of {} do not fit its part",
                self_, to_string(key));
  PendingOperation operation{&part, {}, {}, std::move(ready)};
  for (const auto& source : sources) operation.sources.push_back(source.data());
  for (const auto& destination : destinations) operation.destinations.push_back(destination.data());
  pending_.emplace(key, std::move(operation));
  enqueue_startable();
}

void CollectiveQueue::enqueue_startable() {
  while (next_ < order_.size()) {
    auto operation = pending_.extract(order_[next_]);
    if (operation.empty()) return;
    enqueue(operation.key(), std::move(operation.mapped()));
    ++next_;
  }
}

std::byte* CollectiveQueue::address(const BufferPlace& place,
                                    const PendingOperation& operation) const {
  switch (place.kind) {
    // Sources are only read.
    case BufferKind::kSource:
      return const_cast<std::byte*>(operation.sources.at(place.tensor)) + place.offset;
    case BufferKind::kDestination: return operation.destinations.at(place.tensor) + place.offset;
    case BufferKind::kStaging: return staging_.data() + place.offset;
  }
  WEFT_CHECK(false, "buffer {}", static_cast<int>(place.kind));
}

void CollectiveQueue::enqueue(const OperationKey& key, PendingOperation operation) {
  const DeviceOperations& part = *operation.part;
  reserve_staging(part.staging_bytes);
  if (idle()) moved_ = clock_.now();
  if (operation.ready) stream_->wait(*operation.ready);
  std::shared_ptr<const Event> begun = stream_->record();
  for (const OperationStep& step : part.steps)
    std::visit([&](const auto& each) { enqueue_step(each, operation); }, step);
  queued_[key] = {std::move(operation.ready), {std::move(begun), stream_->record()}};
}

void CollectiveQueue::enqueue_step(const CopyStep& step, const PendingOperation& operation) {
  std::vector<DeviceCopy> copies;
  for (const StridedCopy& copy : step.copies) {
    const DeviceCopy resolved{address(copy.from, operation), address(copy.to, operation),
                              copy.run_bytes, copy.outer};
    if (resolved.from != resolved.to) copies.push_back(resolved);
  }
  if (!copies.empty()) library_.copy(copies, *stream_);
}

void CollectiveQueue::enqueue_step(const RoundStep& step, const PendingOperation& operation) {
  const CommunicatorGroup& group = operation.part->groups.at(step.group);
  const int rank = *group.rank_of(self_);
  std::vector<DeviceCall> calls;
  for (const CollectiveCall& call : step.calls) {
    const bool root = call.kind == CallKind::kBroadcast && static_cast<int>(call.peer) == rank;
    const bool reads =
        call.kind != CallKind::kReceive && (call.kind != CallKind::kBroadcast || root);
    const bool writes = call.kind != CallKind::kSend && !root;
    calls.push_back({call.kind, call.dtype, call.op, static_cast<int>(call.peer), call.count,
                     reads ? address(call.from, operation) : nullptr,
                     writes ? address(call.to, operation) : nullptr});
  }
  communicators_.ready(group, options_.operation_timeout).enqueue(calls, *stream_);
  // NCCL allows work behind a group only once the group has reached the stream.
  communicators_.ready(group, options_.operation_timeout);
}

void CollectiveQueue::enqueue_step(const SumStep& step, const PendingOperation& operation) {
  std::vector<const std::byte*> terms;
  for (const BufferPlace& term : step.terms) terms.push_back(address(term, operation));
  library_.sum({step.dtype, step.count, terms, address(step.to, operation)}, *stream_);
}

void CollectiveQueue::wait(const OperationKey& key, weft::Stream& stream) {
  cancellation_.check(epoch_);
  const auto at = queued_.find(key);
  if (at == queued_.end()) {
    throw_error(ErrorCode::kInternal,
                "device {} waits for {}, but {} comes first in the order and was not started",
                self_, to_string(key),
                next_ < order_.size() ? to_string(order_[next_]) : "nothing");
  }
  stream.wait(*at->second.passage.done);
}

bool CollectiveQueue::done(const OperationKey& key) const {
  const auto at = queued_.find(key);
  return at != queued_.end() && at->second.passage.done->done();
}

bool CollectiveQueue::idle() const {
  // The last operation on the stream suffices, because the stream executes in order.
  return next_ == 0 || queued_.at(order_[next_ - 1]).passage.done->done();
}

std::optional<OperationKey> CollectiveQueue::current() const {
  for (std::size_t i = oldest_; i < next_; ++i) {
    if (!done(order_[i])) return order_[i];
  }
  return std::nullopt;
}

void CollectiveQueue::poll() {
  cancellation_.check(epoch_);
  communicators_.check();
  while (oldest_ < next_ && queued_.at(order_[oldest_]).passage.done->done()) {
    ++oldest_;
    moved_ = clock_.now();
  }
  if (oldest_ == next_) return;
  const EnqueuedOperation& operation = queued_.at(order_[oldest_]);
  // Waiting for this device's own computation does not count towards the timeout.
  if (operation.ready && !operation.ready->done()) moved_ = clock_.now();
  if (clock_.now() - moved_ <= options_.operation_timeout) return;
  throw_error(ErrorCode::kDeadlineExceeded,
              "device {}: {} did not complete within {}: another of its devices has died, or "
              "executes operations in another order",
              self_, to_string(order_[oldest_]),
              format_seconds(std::chrono::duration<double>(options_.operation_timeout).count()));
}

void CollectiveQueue::abort() {
  pending_.clear();
  communicators_.abort();
  stop_stream();
  clear_operations();
}

void CollectiveQueue::stop_stream() {
  const auto end = stream_->record();
  const TimePoint begun = clock_.now();
  while (!end->done()) {
    if (clock_.now() - begun > options_.create_timeout) {
      throw_error(
          ErrorCode::kDeadlineExceeded,
          "device {} is still busy after its communicators were aborted; restart its process",
          self_);
    }
    cancellation_.pause(std::chrono::milliseconds(1));
  }
}

void CollectiveQueue::clear_operations() {
  order_.clear();
  expected_.clear();
  pending_.clear();
  queued_.clear();
  retired_staging_.clear();
  next_ = oldest_ = 0;
}

}  // namespace weft::transfer
