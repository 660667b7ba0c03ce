#include "mesh/objects/segment_transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/platform.h"
#include "core/base/sha256.h"
#include "transfer/flow/device_part.h"
#include "transfer/wires/make_wire.h"

namespace weft::mesh {
namespace {

/// Chunks of a segment: small ones, as the receiver may be forwarding it.
constexpr transfer::ChunkOptions kChunks{256 * 1024, 256 * 1024, 4};
/// Epoch of all transfers: none of them outlives another one.
constexpr std::uint64_t kEpoch = 1;
/// Time without progress after which a transfer fails: another process may have failed to begin its
/// part, or the network of the data plane is cut.
constexpr auto kNoProgress = std::chrono::seconds(30);

std::uint64_t first_bytes_of(const Mac& mac) {
  std::uint64_t number = 0;
  std::memcpy(&number, mac.data(), sizeof(number));
  return number;
}

}  // namespace

SegmentTransfer::SegmentTransfer(const Log& log) : log_(log) {}

DataPlaneHello SegmentTransfer::open(const Secret& token, const std::string& interface) {
  const Mac secret = hmac_sha256(token, "data plane of objects", {});
  const std::uint64_t generation = first_bytes_of(hmac_sha256(Secret(secret), "generation", {}));
  if (!engine_ || generation != generation_) {
    engine_.reset();  // ends its transfers
    devices_.clear();
    suspects_.clear();
    std::uint32_t id = 0;
    fill_with_random(std::as_writable_bytes(std::span(&id, 1)));
    device_ = transfer::DeviceId(id);
    transfer::EngineOptions options;
    options.checksum = transfer::EngineOptions::Checksum::kVerify;
    options.log = log_;
    // A host of its own: processes that share memory send each other nothing.
    engine_ = std::make_unique<transfer::TransferEngine>(
        transfer::make_wire(device_, transfer::HostId(id),
                            {transfer::kDefaultTransport, Secret(secret), interface}),
        clock_, std::move(options));
    generation_ = generation;
  }
  return {device_, generation_, engine_->address()};
}

void SegmentTransfer::connect(actors::ProcessId process, const DataPlaneHello& hello) {
  if (hello.generation != generation_)
    throw_error(ErrorCode::kUnavailable,
                "the token of the cluster was just replaced, and one of two processes that "
                "exchange an object does not have it yet; repeat the call");
  const bool taken =
      hello.device == device_ || std::ranges::any_of(devices_, [&](const auto& known) {
        return known.second == hello.device && known.first != process;
      });
  if (taken)
    throw_error(ErrorCode::kUnavailable,
                "two processes chose the same random id for the exchange of objects; start one of "
                "them again");
  suspects_.erase(process);
  devices_[process] = hello.device;
  engine_->connect(hello.device, transfer::HostId(hello.device.value()), hello.address);
}

void SegmentTransfer::process_lost(actors::ProcessId process, const Error& why) {
  suspects_.erase(process);
  const auto known = devices_.find(process);
  if (known == devices_.end()) return;
  engine_->peer_died(known->second, why);
  devices_.erase(known);
}

transfer::TransferId SegmentTransfer::next_id() {
  return {kEpoch, (std::uint64_t{device_.value()} << 32) | ++next_transfer_, 0, 0};
}

void SegmentTransfer::send(transfer::DeviceId receiver, const transfer::TransferId& id,
                           std::span<const std::byte> segment, Done done) {
  if (!engine_) throw_error(ErrorCode::kFailedPrecondition, "the data plane is not open");
  start(device_, receiver, id, segment, {}, std::move(done));
}

void SegmentTransfer::receive(actors::ProcessId sender, const transfer::TransferId& id,
                              std::span<std::byte> segment, Done done) {
  const auto known = devices_.find(sender);
  if (known == devices_.end())
    throw_error(ErrorCode::kUnavailable, "the connection to the sender of an object is lost");
  start(known->second, device_, id, {}, segment, std::move(done));
}

void SegmentTransfer::start(transfer::DeviceId from, transfer::DeviceId to,
                            const transfer::TransferId& id, std::span<const std::byte> source,
                            std::span<std::byte> destination, Done done) {
  const std::int64_t bytes = std::ssize(source) + std::ssize(destination);
  const Region all({{0, bytes}});
  transfer::Flow flow;
  flow.root = from;
  flow.segments = {transfer::Segment::whole(0, all, 1)};
  flow.edges = {{from, to}};
  transfer::set_chunks(flow, 1, kChunks);
  // Must stay in place until the callback.
  const auto part = std::make_shared<transfer::DevicePart>();
  part->device = device_;
  part->tensors.resize(1);
  part->tensors[0].dtype = DType::kU8;
  (from == device_ ? part->tensors[0].source : part->tensors[0].destination) = all;
  part->streams = transfer::flow_roles_of({flow}, device_);
  const std::array sources{source};
  const std::array destinations{destination};
  // A receiver begins before its source has the bytes, and waits as long as it takes.
  transfer::TransferLimits limits;
  if (from == device_) limits.no_progress = kNoProgress;
  engine_->start(*part, id, sources, destinations, limits,
                 [part, done = std::move(done)](const transfer::TransferReport& report) {
                   done(report.outcome);
                 });
}

void SegmentTransfer::execute(const transfer::DevicePart& part, const transfer::TransferId& id,
                              std::span<const std::byte> source, std::span<std::byte> destination,
                              PartDone done) {
  if (!engine_ || part.device != device_)
    throw_error(ErrorCode::kUnavailable,
                "the data plane was opened again after the transfer was planned");
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> destinations;
  for (const transfer::TensorPart& tensor : part.tensors) {
    sources.push_back(tensor.source ? source : std::span<const std::byte>());
    destinations.push_back(tensor.destination ? destination : std::span<std::byte>());
  }
  engine_->start(part, id, sources, destinations, {.no_progress = kNoProgress}, std::move(done));
}

void SegmentTransfer::cancel(const transfer::TransferId& id, const Error& error) {
  if (engine_) engine_->cancel(id.epoch, id.step, error);
}

}  // namespace weft::mesh
