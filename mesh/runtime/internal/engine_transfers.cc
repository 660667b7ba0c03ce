#include "mesh/runtime/internal/engine_transfers.h"

#include <fmt/format.h>

#include <utility>

namespace weft::mesh {

EngineTransfers::EngineTransfers(transfer::TransferEngine& engine, const Program& program,
                                 DeviceQueue& device, const TransferIdentity& naming)
    : engine_(engine),
      program_(program),
      device_(device),
      naming_(naming),
      transfers_(program.num_handles) {}

bool EngineTransfers::is_computed(std::int32_t buffer) const {
  if (buffer < 0) return false;
  const std::int32_t persistent = program_.buffers[buffer].persistent;
  return persistent < 0 || program_.persistents[persistent].place == MemoryKind::kDevice;
}

bool EngineTransfers::start(const Start& start, std::span<std::byte> source,
                            std::span<std::byte> destination) {
  const std::uint32_t handle = start.handle;
  const bool checkpoint = program_.transfers[start.transfer].kind == TransferPurpose::kCheckpoint;
  if (checkpoint && device_.copies().staging.bytes_in_use() >= kMaxStagedBytes) return false;
  UnderWay& transfer = transfers_[handle];
  transfer.start = &start;
  transfer.source = source;
  transfer.destination = destination;
  const bool reads = is_computed(start.source), writes = is_computed(start.destination);
  if (!device_.copies().host_memory() && (reads || writes)) {
    stage(handle);
  } else if (reads) {
    device_.on_done(device_.compute().record(), device_.copies().computed,
                    [this, handle](TimePoint) { give_to_engine(handle); });
  } else {
    give_to_engine(handle);
  }
  return true;
}

void EngineTransfers::stage(std::uint32_t handle) {
  UnderWay& transfer = transfers_[handle];
  CopyStreams& copies = device_.copies();
  // Earlier work may still write the source, or read or write the destination.
  const std::shared_ptr<const Event> computed = device_.compute().record();
  const std::span<const std::byte> source = transfer.source;
  const bool in_place =
      source.data() == transfer.destination.data() && source.size() == transfer.destination.size();
  if (!transfer.destination.empty()) {
    transfer.destination_block = copies.staging.take(transfer.destination.size());
    transfer.landing = std::exchange(transfer.destination, transfer.destination_block.span());
    transfer.free = computed;
  }
  // The transfer starts at once if it has no source, else after the copy to the host.
  if (source.empty()) return give_to_engine(handle);
  if (!in_place) transfer.source_block = copies.staging.take(source.size());
  const std::span<std::byte> copy =
      in_place ? transfer.destination_block.span() : transfer.source_block.span();
  transfer.source = copy;
  copies.out().wait(*computed);
  copies.out().copy(source, copy);
  device_.on_done(copies.out().record(), copies.copied_out, [this, handle](TimePoint) {
    if (!device_.failure()) give_to_engine(handle);
  });
}

void EngineTransfers::give_to_engine(std::uint32_t handle) {
  const UnderWay& transfer = transfers_[handle];
  const transfer::TransferId id{naming_.epoch, naming_.run, transfer_of(handle).op,
                                static_cast<std::uint32_t>(transfer.start->microbatch + 1)};
  const transfer::TransferLimits limits{.low_priority = naming_.low_priority};
  device_.callbacks()->expect();
  try {
    engine_.start(*transfer_of(handle).engine_share(), id, {&transfer.source, 1},
                  {&transfer.destination, 1}, limits,
                  [this, handle, callbacks = device_.callbacks(),
                   wake = device_.wake()](const transfer::TransferReport& report) {
                    callbacks->put([this, handle, report] { engine_reported(handle, report); });
                    wake();
                  });
  } catch (...) {
    device_.callbacks()->cancel_expected();
    throw;
  }
}

void EngineTransfers::engine_reported(std::uint32_t handle,
                                      const transfer::TransferReport& report) {
  UnderWay& transfer = transfers_[handle];
  transfer.source_block = {};
  transfer.reported = true;
  if (!report.outcome.ok()) {
    return device_.fail(report.outcome.error(),
                        fmt::format("in '{}' of ", transfer_of(handle).name));
  }
  if (transfer.landing.empty()) {
    return device_.timeline().transferred(transfer_of(handle), transfer.start->microbatch, report);
  }
  CopyStreams& copies = device_.copies();
  copies.in().wait(*transfer.free);
  copies.in().copy(transfer.destination_block.span(), transfer.landing);
  transfer.landed = copies.in().record();
  device_.on_done(transfer.landed, copies.copied_in, [this, handle, report](TimePoint at) {
    transfers_[handle].destination_block = {};
    transfer::TransferReport landed = report;
    landed.finished = at;
    device_.timeline().transferred(transfer_of(handle), transfers_[handle].start->microbatch,
                                   landed);
  });
}

bool EngineTransfers::done(std::uint32_t handle) const {
  const UnderWay& transfer = transfers_[handle];
  return transfer.reported && (!transfer.landed || transfer.landed->done());
}

bool EngineTransfers::wait(std::uint32_t handle) {
  const UnderWay& transfer = transfers_[handle];
  if (!transfer.reported) return false;
  if (transfer.landed) device_.compute().wait(*transfer.landed);
  return true;
}

void EngineTransfers::cancel(const Error& why) {
  // Passes on recoverable codes, so that peers that wait for this device recover as it does.
  const bool passes = is_secondary_failure(why) || why.code() == ErrorCode::kDeadlineExceeded;
  engine_.cancel(
      naming_.epoch, naming_.run,
      Error(passes ? why.code() : ErrorCode::kCancelled,
            fmt::format("program '{}' was cancelled: {}", program_.name, why.message())));
}

}  // namespace weft::mesh
