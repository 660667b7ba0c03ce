#include "transfer/execute/internal/transfer_dispatcher.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/codec/error_codec.h"
#include "transfer/execute/chunk_header.h"

namespace weft::transfer {
namespace {

// Number of finished transfers that are remembered, so that late messages for them are dropped at
// once.
constexpr std::size_t kMaxFinishedIds = 4096;
// Number of remembered transfers that peers have announced and this device has not started. Those
// of differing plans never start here.
constexpr std::size_t kMaxAnnounced = 4096;
// Number of chunks of one sender that may wait for transfers not started here. As many four-byte
// chunks fit in its budget of eager bytes. A sender of more has another plan, and would fill this
// device's memory.
constexpr std::size_t kMaxEarlyChunks = Wire::kEagerBudget / 4;
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
      egress_(options.egress.device_streams),
      drops_(clock, std::chrono::seconds(10)),
      slots_(options.staging) {
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
  const std::scoped_lock lock(counters_mutex_);
  counters_.peers[peer].path = path;
}

void TransferDispatcher::start(const TransferId& id, std::span<const DeviceId> peers,
                               bool low_priority, const MakeWork& make, Callback callback) {
  const TimePoint now = clock_.now();
  const auto refuse_start = [&](Error error) {
    release_early(id);
    remember_finished(id);
    for (const DeviceId peer : peers) send_abort(peer, id, error);
    finished_.push_back({{id, std::move(error), now, now, now, 0, 0}, std::move(callback)});
  };
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.transfers_started;
  }
  if (transfers_.contains(id)) {
    finished_.push_back(
        {{id,
          Error(ErrorCode::kAlreadyExists,
                fmt::format("transfer {} is already running on this device; use another TransferId",
                            to_string(id))),
          now, now, now, 0, 0},
         std::move(callback)});
    return;
  }
  if (id.epoch > epoch_) {
    epoch_ = id.epoch;
    announced_.clear();
    for (auto it = early_.begin(); it != early_.end();) {
      const TransferId early = (it++)->first;
      if (early.epoch < epoch_) release_early(early);
    }
  }
  if (const auto aborted = aborted_.find(id); aborted != aborted_.end()) {
    const Error error = aborted->second;
    aborted_.erase(aborted);
    return refuse_start(error);
  }
  for (const DeviceId peer : peers) {
    if (const Error* const loss = peers_.loss_error(peer)) return refuse_start(*loss);
    if (wire_.is_connected(peer)) continue;
    if (peers_.was_connected(peer)) {  // peer_lost() follows
      return refuse_start(Error(ErrorCode::kPeerDied,
                                fmt::format("lost the connection to {}", peers_.name_of(peer))));
    }
    return refuse_start(
        Error(ErrorCode::kFailedPrecondition,
              fmt::format("transfer {} needs {}, which is not connected; connect it first",
                          to_string(id), peers_.name_of(peer))));
  }
  finished_ids_.erase(id);
  std::unique_ptr<ActiveWork> owned;
  try {
    const std::uint64_t order = next_order_++ | (low_priority ? kLowPriority : 0);
    owned = make({*this, slots_, clock_, peers_, options_.egress.device_streams != 0,
                  options_.checksum == EngineOptions::Checksum::kVerify},
                 order);
  } catch (const std::exception&) {  // the part is inconsistent
    return refuse_start(current_error());
  }
  ActiveWork& work = *owned;
  transfers_.emplace(id, RunningTransfer{std::move(owned), std::move(callback)});
  by_order_.emplace(work.order(), &work);
  next_check_ = std::min(next_check_, work.next_check(options_.failure_grace));
  if (announced_.erase(id) != 0) work.mark_first_bytes();
  work.begin();
  if (const auto found = early_.find(id); found != early_.end()) {
    for (const EarlyMessage& early : take_early(found))
      work.message_arrived(early.message, early.sender, early.header, early.bytes, {});
  }
}

void TransferDispatcher::cancel_all(const Error& error) {
  // Does not release messages that arrived and were never taken: their senders would count them as
  // received.
  std::set<DeviceId> waiting;
  for (auto& [id, early] : early_) {
    for (const EarlyMessage& chunk : early) waiting.insert(chunk.sender);
    remember_finished(id);
  }
  early_.clear();
  early_from_.clear();
  for (auto& [id, running] : transfers_)
    running.work->fail(error, ActiveWork::NotifyPeers::kNoPeer);
  for (auto& [id, running] : transfers_) waiting.merge(running.work->abandon_messages());
  for (const DeviceId peer : waiting) cut_connection(peer);
}

void TransferDispatcher::drop_pending_connections() {
  std::map<DeviceId, std::size_t> pending;
  for (const Operation& operation : operations_)
    if (operation.kind != Operation::Kind::kFree) ++pending[operation.peer];
  for (const auto& [peer, messages] : pending) {
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
  for (auto it = early_.begin(); it != early_.end();) {
    const TransferId id = it->first;
    const std::vector<EarlyMessage>& chunks = (it++)->second;
    if (!belongs(id)) continue;
    std::set<DeviceId> senders;
    for (const EarlyMessage& chunk : chunks) senders.insert(chunk.sender);
    for (const DeviceId sender : senders) send_abort(sender, id, error);
    remember_finished(id);
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
  for (const DeviceId peer : std::exchange(over_early_limit_, {})) {
    peer_died(peer, Error(ErrorCode::kIncompatible,
                          fmt::format("{} chunks of {} wait for transfers that this device has not "
                                      "started, so the two devices have different plans; compare "
                                      "the plans' digests",
                                      kMaxEarlyChunks, peers_.name_of(peer))));
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
  remember_finished(work.id());
  egress_.remove(work.order());
  send_eligible_streams();
  next_check_ = std::min(next_check_, work.next_check(options_.failure_grace));
}

void TransferDispatcher::finished(ActiveWork& work) { finished_.push_back({work.report(), {}}); }

std::size_t TransferDispatcher::run_callbacks() {
  if (finished_.empty()) return 0;
  std::vector<FinishedTransfer> done;
  done.swap(finished_);
  for (FinishedTransfer& transfer : done) {
    {
      const std::scoped_lock lock(counters_mutex_);
      ++(transfer.report.outcome.ok() ? counters_.transfers_finished : counters_.transfers_failed);
      counters_.peak_staging_bytes = slots_.peak_bytes();
      counters_.peak_network_streams = peak_network_streams_;
      counters_.egress_rate = egress_rate_.rate().value_or(0);
    }
    if (!transfer.callback) {
      const auto found = transfers_.find(transfer.report.id);
      transfer.callback = std::move(found->second.callback);
      if (found->second.work->may_receive_late_notes()) remember_finished(transfer.report.id);
      by_order_.erase(found->second.work->order());
      transfers_.erase(found);
    }
    transfer.callback(transfer.report);
  }
  return done.size();
}

void TransferDispatcher::remember_finished(const TransferId& id) {
  if (!finished_ids_.insert(id).second) return;
  finished_queue_.push_back(id);
  if (finished_queue_.size() <= kMaxFinishedIds) return;
  finished_ids_.erase(finished_queue_.front());
  aborted_.erase(finished_queue_.front());
  finished_queue_.pop_front();
}

Token TransferDispatcher::new_operation(Operation operation) {
  std::uint32_t index;
  if (free_operations_.empty()) {
    index = operations_.size();
    operations_.push_back(std::move(operation));
  } else {
    index = free_operations_.back();
    free_operations_.pop_back();
    operations_[index] = std::move(operation);
  }
  ++pending_;
  return index;
}

TransferDispatcher::Operation TransferDispatcher::take_operation(Token token) {
  WEFT_CHECK(token < operations_.size() && operations_[token].kind != Operation::Kind::kFree,
             "token {}", token);
  Operation operation = std::move(operations_[token]);
  operations_[token].kind = Operation::Kind::kFree;
  free_operations_.push_back(token);
  --pending_;
  return operation;
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
  const Token token =
      new_operation({Operation::Kind::kSendChunk, chunk.child, &work, chunk.what, {}, {}, bytes});
  wire_.send(chunk.child, std::as_bytes(std::span(&header, 1)), chunk.payload, token);
  const std::scoped_lock lock(counters_mutex_);
  PeerCounters& counters = counters_.peers[chunk.child];
  counters.bytes_sent += bytes;
  ++counters.chunks_sent;
}

void TransferDispatcher::schedule(ActiveWork& work, std::uint32_t stream) {
  update_egress(work, stream);
  send_eligible_streams();
}

void TransferDispatcher::update_egress(const ActiveWork& work, std::uint32_t stream) {
  const ActiveWork::NetworkUse use = work.network_use(stream);
  egress_.update({work.order(), stream}, use.wants, use.moves, use.places);
}

void TransferDispatcher::send_eligible_streams() {
  while (const auto key = egress_.next()) {
    ActiveWork& work = *by_order_.at(key->transfer);
    work.send_over_network(key->stream);
    update_egress(work, key->stream);
    peak_network_streams_ = std::max(peak_network_streams_, egress_.num_moving());
  }
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
             new_operation({Operation::Kind::kSendNote, peer, nullptr, {}, {}, {}}));
}

void TransferDispatcher::receive(ActiveWork& work, DeviceId sender, const PendingChunk& what,
                                 MessageId message, std::span<std::byte> buffer) {
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.chunks_arriving;
  }
  wire_.receive(
      message, buffer,
      new_operation({Operation::Kind::kReceiveChunk, sender, &work, what, {}, {}, buffer.size()}));
}

void TransferDispatcher::take(MessageId message, DeviceId sender, std::size_t bytes) {
  wire_.release(message);
  count_received(sender, bytes);
}

void TransferDispatcher::drop_message(MessageId message, DeviceId sender, std::string_view why) {
  wire_.release(message);
  count_dropped(sender, why);
}

void TransferDispatcher::count_received(DeviceId peer, std::size_t bytes) {
  const std::scoped_lock lock(counters_mutex_);
  PeerCounters& counters = counters_.peers[peer];
  counters.bytes_received += bytes;
  ++counters.chunks_received;
}

void TransferDispatcher::send_abort(DeviceId peer, const TransferId& id, const Error& error) {
  if (!wire_.is_connected(peer)) return;
  const ChunkHeader header = ChunkHeader::of(ChunkHeader::kAbort, id, 0, 0);
  const Error told =
      error.node().empty() ? Error(error).from(fmt::format("device {}", wire_.self()), "") : error;
  const Token token =
      new_operation({Operation::Kind::kSendNote, peer, nullptr, {}, encode_truncated(told), id});
  // The vector's memory does not move when operations_ grows.
  wire_.send(peer, std::as_bytes(std::span(&header, 1)), operations_[token].payload, token);
}

void TransferDispatcher::cut_connection(DeviceId peer) {
  peers_.record_cut(peer);
  wire_.drop(peer);
}

const std::array<TransferDispatcher::MessageKind, 8> TransferDispatcher::kMessageKinds = {{
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
  const auto kind = std::ranges::find_if(kMessageKinds, [&](const MessageKind& each) {
    return header && each.magic == header->magic;
  });
  if (kind == kMessageKinds.end())
    return drop_message(message.id, message.sender, "its header has an unknown type");
  if (header->epoch < epoch_)
    return drop_message(message.id, message.sender, "it belongs to an earlier epoch");
  (this->*kind->arrived)(message, *header);
}

void TransferDispatcher::work_arrived(const Message& message, const ChunkHeader& header) {
  const TransferId id = header.transfer();
  if (const auto found = transfers_.find(id); found != transfers_.end()) {
    const auto arrival = found->second.work->message_arrived(message.id, message.sender, header,
                                                             message.bytes, message.payload);
    if (arrival == ActiveWork::Arrival::kHeld) notify_refused(message.sender, header);
    return;
  }
  if (!finished_ids_.contains(id)) return keep_early(message, header);
  if (header.carries_payload())
    return drop_message(message.id, message.sender, "its transfer has ended on this device");
  wire_.release(message.id);
}

void TransferDispatcher::refusal_arrived(const Message& message, const ChunkHeader& header) {
  wire_.release(message.id);
  if (const auto found = transfers_.find(header.transfer()); found != transfers_.end())
    found->second.work->chunk_refused(message.sender, header.flow, header.chunk);
  if (egress_.num_moving() == 0) egress_rate_.idle();
}

void TransferDispatcher::announcement_arrived(const Message& message, const ChunkHeader& header) {
  wire_.release(message.id);
  const TransferId id = header.transfer();
  if (const auto found = transfers_.find(id); found != transfers_.end())
    return found->second.work->mark_first_bytes();
  if (announced_.size() == kMaxAnnounced) announced_.clear();
  if (!finished_ids_.contains(id)) announced_.insert(id);
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
  const Token token = new_operation({Operation::Kind::kReceiveAbort,
                                     message.sender,
                                     nullptr,
                                     {},
                                     std::vector<std::byte>(message.bytes),
                                     id});
  wire_.receive(message.id, operations_[token].payload, token);
}

void TransferDispatcher::keep_early(const Message& message, const ChunkHeader& header) {
  const DeviceId sender = message.sender;
  if (early_from_[sender] == kMaxEarlyChunks) {
    drop_message(
        message.id, sender,
        "too many chunks of this sender wait for transfers that this device has not started");
    over_early_limit_.insert(sender);
    return;
  }
  ++early_from_[sender];
  early_[header.transfer()].push_back({message.id, sender, header, message.bytes});
  if (!header.carries_payload()) return;
  notify_refused(sender, header);
  const std::scoped_lock lock(counters_mutex_);
  ++counters_.early_chunks;
}

std::vector<TransferDispatcher::EarlyMessage> TransferDispatcher::take_early(
    std::unordered_map<TransferId, std::vector<EarlyMessage>>::iterator found) {
  std::vector<EarlyMessage> early = std::move(found->second);
  early_.erase(found);
  for (const EarlyMessage& chunk : early) --early_from_[chunk.sender];
  return early;
}

void TransferDispatcher::count_dropped(std::optional<DeviceId> sender, std::string_view why) {
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.messages_dropped;
  }
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
  if (const auto found = transfers_.find(id); found != transfers_.end())
    return found->second.work->fail(error, ActiveWork::NotifyPeers::kWaiting);
  if (finished_ids_.contains(id)) return;
  remember_finished(id);
  aborted_.emplace(id, error);
  release_early(id);  // ends the senders' messages without a cut
}

void TransferDispatcher::release_early(const TransferId& id) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  for (const EarlyMessage& early : take_early(found)) wire_.release(early.message);
}

void TransferDispatcher::send_finished(Token token, const Outcome<void>& outcome) {
  const Operation operation = take_operation(token);
  if (operation.kind != Operation::Kind::kSendChunk) return;
  operation.work->chunk_sent(operation.what,
                             outcome.ok() ? outcome : explain(operation.peer, outcome.error()));
  if (is_network(operation.peer) && operation.bytes != 0) {
    egress_rate_.completed(outcome.ok() ? operation.bytes : 0, egress_.num_moving() > 0,
                           clock_.now());
  }
}

void TransferDispatcher::receive_finished(Token token, const Outcome<void>& outcome) {
  const Operation operation = take_operation(token);
  if (operation.kind == Operation::Kind::kReceiveAbort) {
    if (outcome.ok()) abort_arrived(operation.id, operation.payload);
    return;
  }
  {
    const std::scoped_lock lock(counters_mutex_);
    --counters_.chunks_arriving;
  }
  if (outcome.ok() && !operation.work->error()) count_received(operation.peer, operation.bytes);
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

EngineCounters TransferDispatcher::counters() const {
  const std::scoped_lock lock(counters_mutex_);
  return counters_;
}

}  // namespace weft::transfer
