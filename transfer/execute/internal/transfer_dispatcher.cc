#include "transfer/execute/internal/transfer_dispatcher.h"

#include <algorithm>
#include <utility>

#include "core/codec/error_codec.h"
#include "transfer/execute/chunk_header.h"

namespace weft::transfer {
namespace {

// Smallest first chunk that is announced. Without the announcement, the receiver's measured time
// would begin only when the whole chunk has arrived.
constexpr std::size_t kMinAnnouncedBytes = 32 * 1024;
// Size limit of an encoded Error. A longer one is truncated when sent and refused when received.
constexpr std::size_t kMaxErrorBytes = 64 * 1024;

std::vector<std::byte> encode_truncated(const Error& error) {
  std::vector<std::byte> bytes = encode(error);
  if (bytes.size() <= kMaxErrorBytes) return bytes;
  return encode(Error(error.code(), error.message().substr(0, kMaxErrorBytes / 2) + "...")
                    .from(error.node(), ""));
}

}  // namespace

TransferDispatcher::TransferDispatcher(Wire& wire, const Clock& clock, const EngineOptions& options)
    : wire_(wire),
      clock_(clock),
      options_(options),
      drops_(clock, std::chrono::seconds(10)),
      slots_(options.staging),
      egress_(options.egress.device_streams) {
  wire_.set_events(*this);
}

void TransferDispatcher::connect(DeviceId peer, HostId host, std::span<const std::byte> address) {
  peers_.add(peer, host);
  try {
    wire_.connect(peer, host, address);
  } catch (const Error& error) {
    return lose(peer, error);
  }
  const Path path = wire_.path_to(peer);
  peers_.set_path(peer, path);
  egress_.set_max_streams(options_.egress.limit_per_device(1 + peers_.num_local_peers()));
  statistics_.peer_connected(peer, path);
}

void TransferDispatcher::start(const TransferId& id, std::span<const DeviceId> peers,
                               bool low_priority, const MakeWork& make, Callback callback) {
  statistics_.transfer_started();
  if (transfers_.contains(id))
    return report_failure(
        id,
        Error(ErrorCode::kAlreadyExists,
              fmt::format("transfer {} is already running on this device; use another TransferId",
                          to_string(id))),
        std::move(callback));
  begin_epoch(id.epoch);
  std::optional<Error> obstacle = find_obstacle(id, peers);
  std::unique_ptr<ActiveWork> work;
  if (!obstacle) {
    ended_.forget(id);
    try {
      work = make({*this, slots_, clock_, peers_, options_.egress.device_streams != 0,
                   options_.checksum == EngineOptions::Checksum::kVerify},
                  egress_.next_order(low_priority));
    } catch (const std::exception&) {  // the part is inconsistent
      obstacle = current_error();
    }
  }
  if (work) return run(std::move(work), std::move(callback));
  release_early(id);
  ended_.remember(id);
  for (const DeviceId peer : peers) send_abort(peer, id, *obstacle);
  report_failure(id, *std::move(obstacle), std::move(callback));
}

void TransferDispatcher::report_failure(const TransferId& id, Error error, Callback callback) {
  const TimePoint now = clock_.now();
  finished_.push_back({{id, std::move(error), now, now, now, 0, 0}, std::move(callback)});
}

void TransferDispatcher::begin_epoch(std::uint64_t epoch) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  early_.clear_announcements();
  for (const TransferId& id : early_.transfers())
    if (id.epoch < epoch_) release_early(id);
}

std::optional<Error> TransferDispatcher::find_obstacle(const TransferId& id,
                                                       std::span<const DeviceId> peers) {
  if (auto failure = ended_.take_failure(id)) return failure;
  for (const DeviceId peer : peers) {
    if (const Error* const loss = peers_.loss_error(peer)) return *loss;
    if (wire_.is_connected(peer)) continue;
    if (peers_.was_connected(peer))  // peer_lost() follows
      return Error(ErrorCode::kPeerDied,
                   fmt::format("lost the connection to {}", peers_.name_of(peer)));
    return Error(ErrorCode::kFailedPrecondition,
                 fmt::format("transfer {} needs {}, which is not connected; connect it first",
                             to_string(id), peers_.name_of(peer)));
  }
  return std::nullopt;
}

void TransferDispatcher::run(std::unique_ptr<ActiveWork> owned, Callback callback) {
  ActiveWork& work = *owned;
  const TransferId id = work.id();
  transfers_.emplace(id, RunningTransfer{std::move(owned), std::move(callback)});
  egress_.add(work);
  next_check_ = std::min(next_check_, work.next_check(options_.failure_grace));
  if (early_.take_announcement(id)) work.mark_first_bytes();
  work.begin();
  for (const EarlyMessage& early : early_.take(id))
    work.message_arrived(early.message, early.sender, early.header, early.bytes, {});
}

void TransferDispatcher::cancel_all(const Error& error) {
  // Does not release messages that arrived and were never taken: their senders would count them as
  // received.
  std::set<DeviceId> waiting;
  for (const TransferId& id : early_.transfers()) {
    for (const EarlyMessage& early : early_.take(id)) waiting.insert(early.sender);
    ended_.remember(id);
  }
  for (auto& [id, running] : transfers_)
    running.work->fail(error, ActiveWork::NotifyPeers::kNoPeer);
  for (auto& [id, running] : transfers_) waiting.merge(running.work->abandon_messages());
  for (const DeviceId peer : waiting) cut_connection(peer);
}

void TransferDispatcher::drop_pending_connections() {
  for (const auto& [peer, messages] : operations_.count_by_peer()) {
    if (options_.log)
      options_.log->warning(
          "device {} is shutting down and cuts its connection to {}: {} message{} in flight did "
          "not end within {:.1f} s",
          wire_.self(), peers_.name_of(peer), messages, messages == 1 ? "" : "s",
          in_seconds(options_.shutdown_grace));
    cut_connection(peer);
  }
}

void TransferDispatcher::cancel(std::uint64_t epoch, std::uint64_t step, const Error& error) {
  const auto belongs = [&](const TransferId& id) { return id.epoch == epoch && id.step == step; };
  for (auto& [id, running] : transfers_) {
    if (belongs(id)) running.work->fail(error, ActiveWork::NotifyPeers::kWaiting);
  }
  // Ends parts that were to start here.
  for (const TransferId& id : early_.transfers()) {
    if (!belongs(id)) continue;
    for (const DeviceId sender : early_.senders_of(id)) send_abort(sender, id, error);
    ended_.remember(id);
    release_early(id);
  }
}

void TransferDispatcher::peer_died(DeviceId peer, const Error& error) {
  cut_connection(peer);
  lose(peer, error);
}

void TransferDispatcher::lose(DeviceId peer, const Error& error) {
  if (!peers_.record_loss(peer, error)) return;
  for (auto& [id, running] : transfers_) {
    if (running.work->needs(peer)) running.work->fail(error, ActiveWork::NotifyPeers::kWaiting);
  }
}

std::size_t TransferDispatcher::step() {
  std::size_t done = wire_.progress();
  // deferred: message_arrived() must not cut the connection that it is called from
  for (const DeviceId peer : early_.take_over_limit()) {
    peer_died(peer, Error(ErrorCode::kIncompatible,
                          fmt::format("{} chunks of {} wait for transfers that this device has not "
                                      "started, so the two devices have different plans; compare "
                                      "the plans' digests",
                                      EarlyMessages::kMaxPerSender, peers_.name_of(peer))));
  }
  const TimePoint now = clock_.now();
  if (now >= next_check_) check_deadlines();
  done += run_callbacks();
  return done;
}

void TransferDispatcher::check_deadlines() {
  const TimePoint now = clock_.now();
  for (auto& [id, running] : transfers_) {
    for (const DeviceId peer : running.work->check_deadline(now, options_.failure_grace))
      cut_connection(peer);
  }
  next_check_ = TimePoint::max();
  for (auto& [id, running] : transfers_) {
    // A transfer past its time waits for its connections to be cut; check again soon.
    next_check_ = std::min(next_check_, std::max(running.work->next_check(options_.failure_grace),
                                                 now + std::chrono::milliseconds(10)));
  }
}

void TransferDispatcher::failed(ActiveWork& work, const std::set<DeviceId>& tell) {
  for (const DeviceId peer : tell) send_abort(peer, work.id(), *work.error());
  ended_.remember(work.id());
  egress_.remove_streams(work);
  next_check_ = std::min(next_check_, work.next_check(options_.failure_grace));
}

void TransferDispatcher::finished(ActiveWork& work) { finished_.push_back({work.report(), {}}); }

std::size_t TransferDispatcher::run_callbacks() {
  if (finished_.empty()) return 0;
  std::vector<FinishedTransfer> done;
  done.swap(finished_);
  for (FinishedTransfer& transfer : done) {
    statistics_.transfer_ended(transfer.report.outcome.ok(),
                               {slots_.peak_bytes(), egress_.peak_streams(), egress_.rate()});
    if (!transfer.callback) {
      const auto found = transfers_.find(transfer.report.id);
      transfer.callback = std::move(found->second.callback);
      if (found->second.work->may_receive_late_notes()) ended_.remember(transfer.report.id);
      egress_.remove(*found->second.work);
      transfers_.erase(found);
    }
    transfer.callback(transfer.report);
  }
  return done.size();
}

void TransferDispatcher::send(ActiveWork& work, const OutgoingChunk& chunk) {
  ChunkHeader header =
      ChunkHeader::of(chunk.magic, work.id(), chunk.flow.value(), chunk.what.chunk);
  header.crc = chunk.crc;
  const std::size_t bytes = chunk.payload.size();
  if (chunk.first && bytes >= kMinAnnouncedBytes && is_network(chunk.child)) {
    ChunkHeader note = header;
    note.magic = ChunkHeader::kAnnounce;
    note.crc = 0;
    send_note(chunk.child, note);
  }
  const Token token = operations_.add(
      {WireOperation::Kind::kSendChunk, chunk.child, &work, chunk.what, {}, {}, bytes});
  wire_.send(chunk.child, std::as_bytes(std::span(&header, 1)), chunk.payload, token);
  statistics_.chunk_sent(chunk.child, bytes);
}

void TransferDispatcher::notify_refused(DeviceId sender, const ChunkHeader& header) {
  if (!is_network(sender)) return;
  ChunkHeader note = header;
  note.magic = ChunkHeader::kNotReady;
  send_note(sender, note);
}

void TransferDispatcher::send_note(DeviceId peer, const ChunkHeader& note) {
  if (!wire_.is_connected(peer)) return;
  wire_.send(peer, std::as_bytes(std::span(&note, 1)), {},
             operations_.add({WireOperation::Kind::kSendNote, peer}));
}

void TransferDispatcher::receive(ActiveWork& work, DeviceId sender, const PendingChunk& what,
                                 MessageId message, std::span<std::byte> buffer) {
  statistics_.receive_began();
  wire_.receive(
      message, buffer,
      operations_.add(
          {WireOperation::Kind::kReceiveChunk, sender, &work, what, {}, {}, buffer.size()}));
}

void TransferDispatcher::take(MessageId message, DeviceId sender, std::size_t bytes) {
  wire_.release(message);
  statistics_.chunk_received(sender, bytes);
}

void TransferDispatcher::drop_message(MessageId message, DeviceId sender, std::string_view why) {
  wire_.release(message);
  count_dropped(sender, why);
}

void TransferDispatcher::send_abort(DeviceId peer, const TransferId& id, const Error& error) {
  if (!wire_.is_connected(peer)) return;
  const ChunkHeader header = ChunkHeader::of(ChunkHeader::kAbort, id, 0, 0);
  const Error told =
      error.node().empty() ? Error(error).from(fmt::format("device {}", wire_.self()), "") : error;
  const Token token = operations_.add(
      {WireOperation::Kind::kSendNote, peer, nullptr, {}, encode_truncated(told), id});
  wire_.send(peer, std::as_bytes(std::span(&header, 1)), operations_.payload_of(token), token);
}

void TransferDispatcher::cut_connection(DeviceId peer) {
  peers_.record_cut(peer);
  wire_.drop(peer);
}

const std::array<TransferDispatcher::MessageHandler, 8> TransferDispatcher::kMessageHandlers = {{
    {ChunkHeader::kChunk, &TransferDispatcher::work_arrived},
    {ChunkHeader::kBlock, &TransferDispatcher::work_arrived},
    {ChunkHeader::kCredit, &TransferDispatcher::work_arrived},
    {ChunkHeader::kEnd, &TransferDispatcher::work_arrived},
    {ChunkHeader::kConsumed, &TransferDispatcher::work_arrived},
    {ChunkHeader::kNotReady, &TransferDispatcher::refusal_arrived},
    {ChunkHeader::kAnnounce, &TransferDispatcher::announcement_arrived},
    {ChunkHeader::kAbort, &TransferDispatcher::error_arrived},
}};

void TransferDispatcher::message_arrived(const Message& message) {
  const auto header = ChunkHeader::parse(message.header);
  const auto handler = std::ranges::find_if(kMessageHandlers, [&](const MessageHandler& each) {
    return header && each.magic == header->magic;
  });
  if (handler == kMessageHandlers.end())
    return drop_message(message.id, message.sender, "its header has an unknown type");
  if (header->epoch < epoch_)
    return drop_message(message.id, message.sender, "it belongs to an earlier epoch");
  (this->*handler->arrived)(message, *header);
}

ActiveWork* TransferDispatcher::find_work(const TransferId& id) const {
  const auto found = transfers_.find(id);
  return found == transfers_.end() ? nullptr : found->second.work.get();
}

void TransferDispatcher::work_arrived(const Message& message, const ChunkHeader& header) {
  const TransferId id = header.transfer();
  if (ActiveWork* const work = find_work(id)) {
    const auto arrival =
        work->message_arrived(message.id, message.sender, header, message.bytes, message.payload);
    if (arrival == ActiveWork::Arrival::kHeld) notify_refused(message.sender, header);
    return;
  }
  if (!ended_.contains(id)) return keep_early(message, header);
  if (header.carries_payload())
    return drop_message(message.id, message.sender, "its transfer has ended on this device");
  wire_.release(message.id);
}

void TransferDispatcher::refusal_arrived(const Message& message, const ChunkHeader& header) {
  wire_.release(message.id);
  if (ActiveWork* const work = find_work(header.transfer()))
    work->chunk_refused(message.sender, header.flow, header.chunk);
  egress_.chunk_held();
}

void TransferDispatcher::announcement_arrived(const Message& message, const ChunkHeader& header) {
  wire_.release(message.id);
  const TransferId id = header.transfer();
  if (ActiveWork* const work = find_work(id)) return work->mark_first_bytes();
  if (!ended_.contains(id)) early_.announce(id);
}

void TransferDispatcher::error_arrived(const Message& message, const ChunkHeader& header) {
  const TransferId id = header.transfer();
  if (message.bytes > kMaxErrorBytes) {
    return drop_message(message.id, message.sender, "it is an error message of more than 64 KiB");
  }
  if (!message.payload.empty() || message.bytes == 0) {
    const std::vector<std::byte> payload(message.payload.begin(), message.payload.end());
    wire_.release(message.id);
    return abort_arrived(id, payload);
  }
  const Token token = operations_.add({WireOperation::Kind::kReceiveAbort,
                                       message.sender,
                                       nullptr,
                                       {},
                                       std::vector<std::byte>(message.bytes),
                                       id});
  wire_.receive(message.id, operations_.payload_of(token), token);
}

void TransferDispatcher::keep_early(const Message& message, const ChunkHeader& header) {
  if (!early_.keep(message, header))
    return drop_message(
        message.id, message.sender,
        "too many chunks of this sender wait for transfers that this device has not started");
  if (!header.carries_payload()) return;
  notify_refused(message.sender, header);
  statistics_.chunk_arrived_early();
}

void TransferDispatcher::count_dropped(std::optional<DeviceId> sender, std::string_view why) {
  statistics_.message_dropped();
  if (!options_.log) return;
  const auto held_back = drops_.admit();
  if (!held_back) return;
  options_.log->warning(
      "dropped a message from {}: {}{}", sender ? peers_.name_of(*sender) : "an unknown device",
      why,
      *held_back == 0 ? ""
                      : fmt::format(" ({} more dropped since the last such line)", *held_back));
}

void TransferDispatcher::abort_arrived(const TransferId& id, std::span<const std::byte> payload) {
  Error error(ErrorCode::kInternal, "");
  try {
    error = decode<Error>(payload);
  } catch (const Error& damaged) {
    error = damaged;
  }
  if (ActiveWork* const work = find_work(id))
    return work->fail(error, ActiveWork::NotifyPeers::kWaiting);
  if (ended_.contains(id)) return;
  ended_.remember_failure(id, error);
  release_early(id);  // ends the senders' messages without a cut
}

void TransferDispatcher::release_early(const TransferId& id) {
  for (const EarlyMessage& early : early_.take(id)) wire_.release(early.message);
}

void TransferDispatcher::send_finished(Token token, const Outcome<void>& outcome) {
  const WireOperation operation = operations_.take(token);
  if (operation.kind != WireOperation::Kind::kSendChunk) return;
  operation.work->chunk_sent(operation.what,
                             outcome.ok() ? outcome : explain(operation.peer, outcome.error()));
  if (is_network(operation.peer) && operation.bytes != 0)
    egress_.chunk_left(outcome.ok() ? operation.bytes : 0, clock_.now());
}

void TransferDispatcher::receive_finished(Token token, const Outcome<void>& outcome) {
  const WireOperation operation = operations_.take(token);
  if (operation.kind == WireOperation::Kind::kReceiveAbort) {
    if (outcome.ok()) abort_arrived(operation.id, operation.payload);
    return;
  }
  const bool is_received = outcome.ok() && !operation.work->error();
  statistics_.receive_ended(operation.peer,
                            is_received ? std::optional(operation.bytes) : std::nullopt);
  operation.work->chunk_received(operation.what,
                                 outcome.ok() ? outcome : explain(operation.peer, outcome.error()));
}

Error TransferDispatcher::explain(DeviceId peer, const Error& error) const {
  if (const Error* const loss = peers_.loss_error(peer)) return *loss;
  return Error(error.code() == ErrorCode::kCancelled ? ErrorCode::kCancelled : ErrorCode::kPeerDied,
               fmt::format("lost the connection to {}: {}", peers_.name_of(peer), error.message()));
}

void TransferDispatcher::peer_lost(DeviceId peer, const Error& error) {
  lose(peer, Error(ErrorCode::kPeerDied, fmt::format("lost the connection to {}: {}",
                                                     peers_.name_of(peer), error.message())));
}

}  // namespace weft::transfer
