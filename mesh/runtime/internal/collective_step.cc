#include "mesh/runtime/internal/collective_step.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::mesh {

CollectiveStep::CollectiveStep(CollectiveEngine& engine, const Program& program,
                               AsyncExecution& device)
    : engine_(engine),
      program_(program),
      device_(device),
      key_of_handle_(program.num_handles),
      transfer_of_handle_(program.num_handles),
      began_(program.num_handles) {
  for (const Instruction& instruction : program.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start == nullptr) continue;
    key_of_handle_[start->handle] = {program.transfers[start->transfer].op, start->microbatch};
    transfer_of_handle_[start->handle] = start->transfer;
    handle_of_key_[key_of_handle_[start->handle]] = start->handle;
  }
  engine.queue.begin(program.collective_order);
}

void CollectiveStep::start(const Start& start, std::span<const std::byte> source,
                           std::span<std::byte> destination, Stream& compute) {
  try {
    // What was queued before may still write the source, and read or write where the destination
    // lies.
    engine_.queue.start(key_of_handle_[start.handle], *program_.transfers[start.transfer].operations(),
                        {&source, 1}, {&destination, 1}, compute.record());
  } catch (const Error& error) {
    throw named(error, fmt::format("begins '{}'", program_.transfers[start.transfer].name));
  }
  const auto on_stream = engine_.queue.on_stream();
  for (; watched_ < on_stream.size(); ++watched_) {
    const auto& passage = engine_.queue.passage(on_stream[watched_]);
    const std::uint32_t handle = handle_of_key_.at(on_stream[watched_]);
    device_.watch(passage.begun, engine_.passed, Notice::Kind::kCollectiveBegun, handle);
    device_.watch(passage.done, engine_.passed, Notice::Kind::kCollectiveDone, handle);
  }
}

transfer::TransferReport CollectiveStep::report(const Start& start, TimePoint ended) const {
  const Transfer& transfer = program_.transfers[start.transfer];
  transfer::TransferReport report;
  report.started = report.moving = began_[start.handle];
  report.finished = ended;
  report.bytes_sent = transfer.bytes_sent();
  report.bytes_received = transfer.bytes_received();
  return report;
}

std::string CollectiveStep::under_way() const {
  const auto at = current();
  if (!at) return "";
  std::string text =
      fmt::format("'{}'", program_.transfers[transfer_of_handle_[handle_of_key_.at(*at)]].name);
  if (at->microbatch >= 0) text += fmt::format(" of microbatch {}", at->microbatch);
  std::size_t behind = 0;
  for (const auto& key : engine_.queue.on_stream())
    behind += key != *at && !engine_.queue.done(key) ? 1 : 0;
  if (behind > 0) text += fmt::format(", then {} more", behind);
  return text;
}

Error CollectiveStep::named(const Error& error, const std::string& otherwise) const {
  const std::string what = under_way();
  const std::string where = what.empty() ? otherwise : "stands at " + what;
  if (where.empty()) return error;
  return Error(error.code(), fmt::format("{} (the device {})", error.message(), where))
      .at(error.where());
}

void CollectiveStep::poll() {
  try {
    engine_.queue.poll();
  } catch (const Error& error) {
    throw named(error, "");
  }
}

}  // namespace weft::mesh
