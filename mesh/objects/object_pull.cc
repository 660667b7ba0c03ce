// How an object store receives objects from other hosts, and sends them.

#include <algorithm>
#include <deque>
#include <utility>

#include "core/network/interface_address.h"
#include "mesh/objects/object_store.h"
#include "mesh/objects/patient_call.h"
#include "mesh/objects/transfer_end.h"

namespace weft::mesh {
namespace {

/// Segments that a process requests ahead.
constexpr std::size_t kWindow = 8;
/// Bounds of a segment. Each process of a chain lags some segments behind its source, so an object
/// has about kSegments of them.
constexpr std::uint64_t kSegments = 1024;
constexpr std::uint64_t kSmallestSegment = 128 * 1024;
constexpr std::uint64_t kLargestSegment = 1024 * 1024;
/// Time in which a segment arrives after its source has sent it.
constexpr auto kArrivesWithin = std::chrono::seconds(30);

}  // namespace

/// Part of an object that is on its way to this process.
struct ObjectStore::Segment {
  transfer::TransferId id;
  std::uint64_t end = 0;  ///< Offset of the first byte behind it.
  std::shared_ptr<TransferEnd> received;
  actors::Future<void> sent;
};

DataPlaneHello ObjectStore::open_data_plane() {
  const actors::System& system = context_.system();
  return transfer_.open(system.token(),
                        interface_of(addresses_for_tensors(), system.self().address.host));
}

DataPlaneHello ObjectStore::connect(const DataPlaneHello& hello) {
  DataPlaneHello own = open_data_plane();
  transfer_.connect(context_.caller().id, hello);
  return own;
}

actors::task<void> ObjectStore::connect_to(actors::ProcessRef process) {
  if (transfer_.is_connected(process.id)) co_return;
  auto answer = store_of(process).call<&ObjectStore::connect>(open_data_plane());
  const DataPlaneHello hello = co_await answer;
  transfer_.connect(process.id, hello);
}

actors::task<bool> ObjectStore::pull(CopyPtr copy, actors::ProcessRef source,
                                     std::vector<actors::ProcessId>& failed,
                                     std::uint64_t attempt) {
  std::size_t waits = 0;
  bool again = false;  // the source has failed once, although it lives
  while (true) {
    std::optional<Error> failure;
    try {
      auto connected = connect_to(source);
      co_await connected;
      auto pulled = pull_from(copy, source);
      co_await pulled;
    } catch (const Error& error) {
      failure = error;
    }
    if (!failure) {
      finish(*copy);
      co_return true;
    }
    if (context_.stop_token().stop_requested()) throw Error(*failure);
    if (failure->code() == ErrorCode::kResourceExhausted && waits < kMostWaits) {
      co_await context_.sleep(kWait * ++waits);
      continue;
    }
    // Only the loss of the process ends its other transfers.
    transfer_.connect_again(source.id);
    if (failure->code() != ErrorCode::kNotFound && !again && is_connected(source)) {
      again = true;
      continue;
    }
    again = false;
    context_.log().info("{}: continues {} at byte {} from another process than {}: {}",
                        context_.name(), describe(copy->object), copy->landed, source.name,
                        failure->message());
    failed.push_back(source.id);
    auto asked = ask_directory({copy->object, context_.system().self(), host_, failed, attempt});
    const LocateReply reply = co_await asked;
    if (reply.action == LocateReply::Action::kMap) co_return false;
    source = reply.holder;
  }
}

std::shared_ptr<ObjectStore::Segment> ObjectStore::begin_segment(const CopyPtr& copy,
                                                                 const actors::ProcessRef& source,
                                                                 std::uint64_t offset,
                                                                 std::uint64_t bytes) {
  const auto received = std::make_shared<TransferEnd>(context_.make_wakeup());
  const transfer::TransferId id = transfer_.next_id();
  transfer_.receive(
      source.id, id, copy->memory->writable().subspan(offset, bytes),
      [received, memory = copy->memory](const Outcome<void>& outcome) { received->set(outcome); });
  auto sent = store_of(source)
                  .within(actors::kNoDeadline)
                  .call<&ObjectStore::send>(
                      SendRequest{copy->object.id, offset, bytes, transfer_.self(), id});
  return std::make_shared<Segment>(Segment{id, offset + bytes, received, std::move(sent)});
}

actors::task<void> ObjectStore::pull_from(CopyPtr copy, actors::ProcessRef source) {
  const std::uint64_t bytes = copy->object.bytes;
  const std::uint64_t size = std::clamp(bytes / kSegments, kSmallestSegment, kLargestSegment);
  std::deque<std::shared_ptr<Segment>> window;
  std::uint64_t requested = copy->landed;
  std::optional<Error> failure;
  try {
    while (copy->landed < bytes) {
      while (window.size() < kWindow && requested < bytes) {
        const std::uint64_t next = std::min(size, bytes - requested);
        window.push_back(begin_segment(copy, source, requested, next));
        requested += next;
      }
      const auto first = window.front();
      co_await first->sent;
      auto received = first->received->wait_within(kArrivesWithin);
      const bool arrived = co_await received;
      if (!arrived)
        throw_error(ErrorCode::kUnavailable,
                    "a segment that {} has sent has not arrived within {} s", source.name,
                    kArrivesWithin.count());
      first->received->outcome.value();
      bytes_received_ += first->end - copy->landed;
      copy->memory->wrote(first->end - copy->landed);
      copy->landed = first->end;
      copy->changes.notify();
      window.pop_front();
    }
  } catch (const Error& error) {
    failure = error;
  }
  if (!failure) co_return;
  // The next source may write to the same memory once these transfers have ended.
  for (const auto& each : window) {
    each->sent.cancel();
    transfer_.cancel(each->id, *failure);
  }
  for (const auto& each : window) {
    auto received = each->received->wait();
    co_await received;
  }
  throw Error(*failure);
}

actors::task<void> ObjectStore::send(SendRequest request) {
  const auto copy = copies_->find(request.object);
  const std::uint64_t end = request.offset + request.bytes;
  if (!copy || end > copy->object.bytes || end < request.offset)
    throw_error(ErrorCode::kNotFound, "{} has no such part of object {}",
                context_.system().self().name, request.object.number);
  const CopyUse use(*copies_, copy);
  while (!copy->complete && copy->landed < end) {
    if (copy->failure) throw Error(*copy->failure);
    co_await copy->changes.next(context_);
  }
  if (copy->complete) {
    auto loaded = copies_->load(copy);
    co_await loaded;
  }
  const auto memory = copy->memory;
  const auto sent = std::make_shared<TransferEnd>(context_.make_wakeup());
  transfer_.send(request.receiver, request.transfer,
                 memory->bytes().subspan(request.offset, request.bytes),
                 [sent, memory](const Outcome<void>& outcome) { sent->set(outcome); });
  try {
    auto ended = sent->wait();
    co_await ended;
  } catch (const Error& error) {
    transfer_.cancel(request.transfer, error);
    throw;
  }
  sent->outcome.value();
  bytes_sent_ += request.bytes;
}

}  // namespace weft::mesh
