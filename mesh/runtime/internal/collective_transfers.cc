#include "mesh/runtime/internal/collective_transfers.h"

#include <fmt/format.h>

#include <variant>

namespace weft::mesh {

CollectiveTransfers::CollectiveTransfers(CollectiveStream& library, const Program& program,
                                         DeviceQueue& device, std::uint64_t epoch)
    : queue_(library.queue),
      stream_events_(library.stream_events),
      program_(program),
      device_(device),
      epoch_(epoch),
      keys_(program.num_handles),
      starts_(program.num_handles, nullptr),
      began_(program.num_handles) {
  for (const Instruction& instruction : program.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start == nullptr || program.transfers[start->transfer].library_share() == nullptr) continue;
    starts_[start->handle] = start;
    keys_[start->handle] = {program.transfers[start->transfer].op, start->microbatch};
    handles_[keys_[start->handle]] = start->handle;
  }
  queue_.begin(program.collective_order);
}

bool CollectiveTransfers::start(const Start& start, std::span<std::byte> source,
                                std::span<std::byte> destination) {
  const Transfer& transfer = program_.transfers[start.transfer];
  const std::span<const std::byte> reads = source;
  try {
    // Earlier work may still write the source, or read or write the destination.
    queue_.start(keys_[start.handle], *transfer.library_share(), {&reads, 1}, {&destination, 1},
                 device_.compute().record());
  } catch (const Error& error) {
    throw named(error, fmt::format("begins '{}'", transfer.name));
  }
  const auto on_stream = queue_.on_stream();
  while (watched_ < on_stream.size()) watch(on_stream[watched_++]);
  return true;
}

void CollectiveTransfers::watch(const transfer::OperationKey& key) {
  const std::uint32_t handle = handles_.at(key);
  const auto& passage = queue_.passage(key);
  device_.on_done(passage.begun, stream_events_,
                  [this, handle](TimePoint at) { began_[handle] = at; });
  device_.on_done(passage.done, stream_events_, [this, handle](TimePoint at) {
    const Transfer& transfer = transfer_of(handle);
    transfer::TransferReport report;
    report.started = report.moving = began_[handle];
    report.finished = at;
    report.bytes_sent = transfer.bytes_sent();
    report.bytes_received = transfer.bytes_received();
    device_.timeline().transferred(transfer, starts_[handle]->microbatch, report);
  });
}

std::string CollectiveTransfers::current_operations() const {
  const auto at = position();
  if (!at) return "";
  std::string text = fmt::format("'{}'", transfer_of(handles_.at(*at)).name);
  if (at->microbatch >= 0) text += fmt::format(" of microbatch {}", at->microbatch);
  std::size_t behind = 0;
  for (const auto& key : queue_.on_stream()) behind += key != *at && !queue_.done(key) ? 1 : 0;
  if (behind > 0) text += fmt::format(", then {} more", behind);
  return text;
}

std::string CollectiveTransfers::describe_position() const {
  const std::string what = current_operations();
  return what.empty() ? "" : fmt::format("with device collectives at {}, ", what);
}

Error CollectiveTransfers::named(const Error& error, const std::string& otherwise) const {
  const std::string what = current_operations();
  const std::string where = what.empty() ? otherwise : "is at " + what;
  if (where.empty()) return error;
  return Error(error.code(), fmt::format("{} (the device {})", error.message(), where))
      .at(error.where());
}

void CollectiveTransfers::poll() {
  try {
    queue_.poll();
  } catch (const Error& error) {
    throw named(error, "");
  }
}

void CollectiveTransfers::cancel(const Error& why) {
  queue_.cancel(epoch_, why);
  queue_.abort();
}

}  // namespace weft::mesh
