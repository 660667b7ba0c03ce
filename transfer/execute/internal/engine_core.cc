#include "transfer/execute/internal/engine_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/codec/error_codec.h"
#include "transfer/execute/internal/chunk_header.h"

namespace weft::transfer {
namespace {

// How many failed transfers are remembered, so that what still arrives for them is thrown away at
// once.
constexpr std::size_t kRememberedFailures = 4096;
// How many that others have begun and this device has not; those of plans that differ never start
// here.
constexpr std::size_t kRememberedBeginnings = 4096;
// How many chunks of one sender may wait for transfers that have not begun here: as many of four
// bytes as its budget of eager bytes holds. Who sends more has another plan, and would fill this
// device's memory.
constexpr std::size_t kMostEarly = Wire::kEagerBudget / 4;
// How much of an Error may travel: a longer one is cut, and memory for more is not given.
constexpr std::size_t kMostErrorBytes = 64 * 1024;

std::vector<std::byte> encode_short(const Error& error) {
  std::vector<std::byte> bytes = encode(error);
  if (bytes.size() <= kMostErrorBytes) return bytes;
  return encode(Error(error.code(), error.message().substr(0, kMostErrorBytes / 2) + "...")
                    .from(error.node(), ""));
}

}  // namespace

EngineCore::EngineCore(Wire& wire, const Clock& clock, const EngineOptions& options)
    : wire_(wire),
      clock_(clock),
      options_(options),
      egress_(options.egress.device_streams),
      drops_(clock, std::chrono::seconds(10)),
      slots_(options.staging) {
  wire_.set_events(*this);
}

std::string EngineCore::name_of(DeviceId peer) const {
  const auto host = hosts_.find(peer);
  return host == hosts_.end() ? fmt::format("device {}", peer)
                              : fmt::format("device {} (host {})", peer, host->second);
}

void EngineCore::connect(DeviceId peer, HostId host, std::span<const std::byte> address) {
  hosts_[peer] = host;
  lost_.erase(peer);
  cut_.erase(peer);
  try {
    wire_.connect(peer, host, address);
  } catch (const Error& error) {
    return lose(peer, error);
  }
  const Path path = wire_.path_to(peer);
  if (path == Path::kSharedMemory) neighbours_.insert(peer);
  if (path == Path::kTcp) over_network_.insert(peer);
  egress_.set_max_streams(options_.egress.streams_of_each(1 + neighbours_.size()));
  const std::scoped_lock lock(counters_mutex_);
  counters_.peers[peer].path = path;
}

void EngineCore::start(const DevicePart& part, const TransferId& id, Buffers buffers,
                       const TransferLimits& limits, Callback callback) {
  const TimePoint now = clock_.now();
  const auto refuse = [&](Error error) {
    release_early(id);
    remember_failed(id);
    for (const DeviceId peer : part.peers()) send_abort(peer, id, error);
    finished_.push_back({{id, std::move(error), now, now, now, 0, 0}, std::move(callback)});
  };
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.transfers_started;
  }
  if (transfers_.contains(id)) {
    finished_.push_back({{id,
                          Error(ErrorCode::kAlreadyExists,
                                fmt::format("transfer {} is under way already", to_string(id))),
                          now, now, now, 0, 0},
                         std::move(callback)});
    return;
  }
  if (id.epoch > epoch_) {
    epoch_ = id.epoch;
    begun_.clear();
    for (auto it = early_.begin(); it != early_.end();) {
      const TransferId early = (it++)->first;
      if (early.epoch < epoch_) release_early(early);
    }
  }
  if (const auto aborted = aborted_.find(id); aborted != aborted_.end()) {
    const Error error = aborted->second;
    aborted_.erase(aborted);
    return refuse(error);
  }
  for (const DeviceId peer : part.peers()) {
    if (const auto lost = lost_.find(peer); lost != lost_.end()) return refuse(lost->second);
    if (wire_.is_connected(peer)) continue;
    if (hosts_.contains(peer) && !cut_.contains(peer)) {  // peer_lost() is on its way
      return refuse(
          Error(ErrorCode::kPeerDied, fmt::format("lost the connection to {}", name_of(peer))));
    }
    return refuse(
        Error(ErrorCode::kFailedPrecondition,
              fmt::format("transfer {} needs {}, which is not connected; connect it first",
                          to_string(id), name_of(peer))));
  }
  failed_.erase(id);
  std::unique_ptr<ActiveTransfer> owned;
  try {
    const std::uint64_t order = next_order_++ | (limits.stands_back ? kStandsBack : 0);
    owned = std::make_unique<ActiveTransfer>(*this, part, id, order, std::move(buffers), now,
                                             limits, callback);
  } catch (const std::exception&) {  // a part that contradicts itself
    return refuse(current_error());
  }
  ActiveTransfer& transfer = *owned;
  transfers_.emplace(id, std::move(owned));
  by_order_.emplace(transfer.order(), &transfer);
  next_check_ = std::min(next_check_, transfer.next_check(options_.grace));
  if (begun_.erase(id) != 0) transfer.bytes_are_coming();
  transfer.begin();
  if (const auto found = early_.find(id); found != early_.end()) {
    for (const Early& chunk : take_early(found))
      transfer.chunk_arrived(chunk.message, chunk.sender, chunk.header, chunk.bytes, {});
  }
}

void EngineCore::cancel_all(const Error& error) {
  // What has come and was never taken is not released: its senders would believe it received.
  std::set<DeviceId> waiting;
  for (auto& [id, early] : early_) {
    for (const Early& chunk : early) waiting.insert(chunk.sender);
    remember_failed(id);
  }
  early_.clear();
  early_from_.clear();
  for (auto& [id, transfer] : transfers_) transfer->fail(error, ActiveTransfer::Tell::kNobody);
  for (auto& [id, transfer] : transfers_) transfer->drop_busy_peers();
  for (const DeviceId peer : waiting) drop(peer);
}

void EngineCore::peer_died(DeviceId peer, const Error& error) {
  drop(peer);
  lose(peer, error);
}

void EngineCore::lose(DeviceId peer, const Error& error) {
  if (!lost_.emplace(peer, error).second) return;
  for (auto& [id, transfer] : transfers_) {
    if (transfer->needs(peer)) transfer->fail(error, ActiveTransfer::Tell::kOthers);
  }
}

std::size_t EngineCore::step() {
  std::size_t done = wire_.progress();
  // not while the wire hands over its message
  for (const DeviceId peer : std::exchange(overrun_, {})) {
    peer_died(peer, Error(ErrorCode::kIncompatible,
                          fmt::format("{} chunks of {} wait for transfers that have not begun "
                                      "here, so it has another plan; "
                                      "compare the plans' digests",
                                      kMostEarly, name_of(peer))));
  }
  const TimePoint now = clock_.now();
  if (now >= next_check_) check_deadlines();
  done += run_callbacks();
  return done;
}

void EngineCore::check_deadlines() {
  const TimePoint now = clock_.now();
  for (auto& [id, transfer] : transfers_) transfer->check_deadline(now, options_.grace);
  next_check_ = TimePoint::max();
  for (auto& [id, transfer] : transfers_) {
    // Past its time and still here: its connections are being cut; look again soon.
    next_check_ = std::min(next_check_, std::max(transfer->next_check(options_.grace),
                                                 now + std::chrono::milliseconds(10)));
  }
}

void EngineCore::failed(ActiveTransfer& transfer) {
  remember_failed(transfer.id());
  egress_.remove(transfer.order());
  send_what_may_be_sent();
  next_check_ = std::min(next_check_, transfer.next_check(options_.grace));
}

void EngineCore::finished(ActiveTransfer& transfer) {
  Outcome<void> outcome;
  if (transfer.error()) outcome = *transfer.error();
  std::vector<LandedChunks> landed;
  if (transfer.error()) landed = transfer.landed();
  finished_.push_back(
      {{transfer.id(), std::move(outcome), transfer.started(), transfer.moving(), clock_.now(),
        transfer.bytes_sent(), transfer.bytes_received(), std::move(landed)},
       {}});
}

std::size_t EngineCore::run_callbacks() {
  if (finished_.empty()) return 0;
  std::vector<Ending> endings;
  endings.swap(finished_);
  for (Ending& ending : endings) {
    {
      const std::scoped_lock lock(counters_mutex_);
      ++(ending.report.outcome.ok() ? counters_.transfers_finished : counters_.transfers_failed);
      counters_.peak_staging_bytes = slots_.peak_bytes();
      counters_.peak_network_streams = peak_network_streams_;
      counters_.egress_rate = egress_rate_.rate().value_or(0);
    }
    if (!ending.callback) {
      const auto found = transfers_.find(ending.report.id);
      ending.callback = found->second->take_callback();
      by_order_.erase(found->second->order());
      transfers_.erase(found);
    }
    ending.callback(ending.report);
  }
  return endings.size();
}

void EngineCore::remember_failed(const TransferId& id) {
  if (!failed_.insert(id).second) return;
  failed_order_.push_back(id);
  if (failed_order_.size() <= kRememberedFailures) return;
  failed_.erase(failed_order_.front());
  aborted_.erase(failed_order_.front());
  failed_order_.pop_front();
}

Token EngineCore::new_operation(Operation operation) {
  std::uint32_t index;
  if (free_operations_.empty()) {
    index = static_cast<std::uint32_t>(operations_.size());
    operations_.push_back(std::move(operation));
  } else {
    index = free_operations_.back();
    free_operations_.pop_back();
    operations_[index] = std::move(operation);
  }
  ++pending_;
  return index;
}

EngineCore::Operation EngineCore::take_operation(Token token) {
  WEFT_CHECK(token < operations_.size() && operations_[token].kind != Operation::Kind::kFree,
             "token {}", token);
  Operation operation = std::move(operations_[token]);
  operations_[token].kind = Operation::Kind::kFree;
  free_operations_.push_back(static_cast<std::uint32_t>(token));
  --pending_;
  return operation;
}

void EngineCore::send_chunk(ActiveTransfer& transfer, DeviceId peer, const PendingChunk& what,
                            std::uint32_t flow, std::uint32_t crc,
                            std::span<const std::byte> payload) {
  ChunkHeader header = ChunkHeader::of(ChunkHeader::kChunk, transfer.id(), flow, what.chunk);
  header.crc = crc;
  const std::uint64_t network_bytes = is_network(peer) ? payload.size() : 0;
  const Token token =
      new_operation({Operation::Kind::kSendChunk, peer, &transfer, what, {}, {}, network_bytes});
  wire_.send(peer, std::as_bytes(std::span(&header, 1)), payload, token);
  const std::scoped_lock lock(counters_mutex_);
  PeerCounters& counters = counters_.peers[peer];
  counters.bytes_sent += payload.size();
  ++counters.chunks_sent;
}

void EngineCore::offer(const ActiveTransfer& transfer, std::uint32_t stream) {
  egress_.update({transfer.order(), stream}, transfer.wants_network(stream),
                 transfer.moves_network(stream), transfer.egress_places());
  send_what_may_be_sent();
}

void EngineCore::send_what_may_be_sent() {
  while (const auto key = egress_.next()) {
    ActiveTransfer& transfer = *by_order_.at(key->transfer);
    transfer.send_over_network(key->stream);
    egress_.update(*key, transfer.wants_network(key->stream), transfer.moves_network(key->stream),
                   transfer.egress_places());
    peak_network_streams_ = std::max(peak_network_streams_, egress_.num_moving());
  }
}

void EngineCore::tell_held(DeviceId sender, const ChunkHeader& header) {
  if (!is_network(sender)) return;
  ChunkHeader note = header;
  note.magic = ChunkHeader::kHeld;
  send_note(sender, note);
}

void EngineCore::send_note(DeviceId peer, const ChunkHeader& note) {
  if (!wire_.is_connected(peer)) return;
  wire_.send(peer, std::as_bytes(std::span(&note, 1)), {},
             new_operation({Operation::Kind::kSendNote, peer, nullptr, {}, {}, {}}));
}

void EngineCore::receive_chunk(ActiveTransfer& transfer, DeviceId peer, const PendingChunk& what,
                               MessageId message, std::span<std::byte> buffer) {
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.chunks_arriving;
  }
  wire_.receive(message, buffer,
                new_operation({Operation::Kind::kReceiveChunk, peer, &transfer, what, {}, {}}));
}

void EngineCore::count_received(DeviceId peer, std::size_t bytes) {
  const std::scoped_lock lock(counters_mutex_);
  PeerCounters& counters = counters_.peers[peer];
  counters.bytes_received += bytes;
  ++counters.chunks_received;
}

void EngineCore::send_abort(DeviceId peer, const TransferId& id, const Error& error) {
  if (!wire_.is_connected(peer)) return;
  const ChunkHeader header = ChunkHeader::of(ChunkHeader::kAbort, id, 0, 0);
  const Error told =
      error.node().empty() ? Error(error).from(fmt::format("device {}", wire_.self()), "") : error;
  const Token token =
      new_operation({Operation::Kind::kSendNote, peer, nullptr, {}, encode_short(told), id});
  // The vector's memory stays where it is when operations_ grows.
  wire_.send(peer, std::as_bytes(std::span(&header, 1)), operations_[token].payload, token);
}

void EngineCore::drop(DeviceId peer) {
  cut_.insert(peer);
  wire_.drop(peer);
}

void EngineCore::message_arrived(const Message& message) {
  const auto header = ChunkHeader::parse(message.header);
  if (!header) {
    wire_.release(message.id);
    return count_dropped(message.sender, "it is neither a chunk nor a note about one");
  }
  const TransferId id = header->transfer();
  if (header->epoch < epoch_) {
    wire_.release(message.id);
    return count_dropped(message.sender, "it belongs to an epoch that is over");
  }
  if (header->magic == ChunkHeader::kAbort) return error_arrived(message, id);
  const auto found = transfers_.find(id);
  if (header->magic == ChunkHeader::kHeld) {
    wire_.release(message.id);
    if (found != transfers_.end())
      found->second->chunk_held(message.sender, header->flow, header->chunk);
    if (egress_.num_moving() == 0) egress_rate_.idle();
    return;
  }
  if (header->magic == ChunkHeader::kBegin) {
    wire_.release(message.id);
    if (found != transfers_.end()) return found->second->bytes_are_coming();
    if (begun_.size() == kRememberedBeginnings) begun_.clear();
    if (!failed_.contains(id)) begun_.insert(id);
    return;
  }
  if (found != transfers_.end()) {
    const auto arrival = found->second->chunk_arrived(message.id, message.sender, *header,
                                                      message.bytes, message.payload);
    if (arrival == ActiveTransfer::Arrival::kHeld) tell_held(message.sender, *header);
    return;
  }
  if (failed_.contains(id)) {
    wire_.release(message.id);
    return count_dropped(message.sender, "it belongs to a transfer that has failed here");
  }
  keep_early(message, *header);
}

void EngineCore::error_arrived(const Message& message, const TransferId& id) {
  if (message.bytes > kMostErrorBytes) {
    wire_.release(message.id);
    return count_dropped(message.sender, "it says to be an error, but is too long for one");
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

void EngineCore::keep_early(const Message& message, const ChunkHeader& header) {
  const DeviceId sender = message.sender;
  if (early_from_[sender] == kMostEarly) {
    wire_.release(message.id);
    count_dropped(sender, "too many of its chunks wait for transfers that have not begun here");
    overrun_.insert(sender);
    return;
  }
  ++early_from_[sender];
  early_[header.transfer()].push_back({message.id, sender, header, message.bytes});
  tell_held(sender, header);
  const std::scoped_lock lock(counters_mutex_);
  ++counters_.early_chunks;
}

std::vector<EngineCore::Early> EngineCore::take_early(
    std::unordered_map<TransferId, std::vector<Early>>::iterator found) {
  std::vector<Early> early = std::move(found->second);
  early_.erase(found);
  for (const Early& chunk : early) --early_from_[chunk.sender];
  return early;
}

void EngineCore::count_dropped(std::optional<DeviceId> sender, std::string_view why) {
  {
    const std::scoped_lock lock(counters_mutex_);
    ++counters_.messages_dropped;
  }
  if (!options_.log) return;
  const auto held_back = drops_.admit();
  if (!held_back) return;
  options_.log->warning(
      "dropped a message from {}: {}{}", sender ? name_of(*sender) : "a stranger", why,
      *held_back == 0 ? ""
                      : fmt::format(" ({} more dropped since the last such line)", *held_back));
}

void EngineCore::abort_arrived(const TransferId& id, std::span<const std::byte> payload) {
  Error error(ErrorCode::kInternal, "");
  try {
    error = decode<Error>(payload);
  } catch (const Error& damaged) {
    error = damaged;
  }
  if (const auto found = transfers_.find(id); found != transfers_.end())
    return found->second->fail(error, ActiveTransfer::Tell::kOthers);
  if (failed_.contains(id)) return;
  remember_failed(id);
  aborted_.emplace(id, error);
  release_early(id);  // so that those who sent it need not cut the connection to be done with it
}

void EngineCore::release_early(const TransferId& id) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  for (const Early& early : take_early(found)) wire_.release(early.message);
}

void EngineCore::send_finished(Token token, const Outcome<void>& outcome) {
  const Operation operation = take_operation(token);
  if (operation.kind != Operation::Kind::kSendChunk) return;
  operation.transfer->chunk_sent(operation.what,
                                 outcome.ok() ? outcome : explain(operation.peer, outcome.error()));
  if (operation.network_bytes != 0) {
    egress_rate_.completed(outcome.ok() ? operation.network_bytes : 0, egress_.num_moving() > 0,
                           clock_.now());
  }
}

void EngineCore::receive_finished(Token token, const Outcome<void>& outcome) {
  const Operation operation = take_operation(token);
  if (operation.kind == Operation::Kind::kReceiveAbort) {
    if (outcome.ok()) abort_arrived(operation.id, operation.payload);
    return;
  }
  {
    const std::scoped_lock lock(counters_mutex_);
    --counters_.chunks_arriving;
  }
  operation.transfer->chunk_received(
      operation.what, outcome.ok() ? outcome : explain(operation.peer, outcome.error()));
}

Error EngineCore::explain(DeviceId peer, const Error& error) const {
  if (const auto lost = lost_.find(peer); lost != lost_.end()) return lost->second;
  return Error(error.code() == ErrorCode::kCancelled ? ErrorCode::kCancelled : ErrorCode::kPeerDied,
               fmt::format("lost the connection to {}: {}", name_of(peer), error.message()));
}

void EngineCore::peer_lost(DeviceId peer, const Error& error) {
  lose(peer, Error(ErrorCode::kPeerDied,
                   fmt::format("lost the connection to {}: {}", name_of(peer), error.message())));
}

EngineCounters EngineCore::counters() const {
  const std::scoped_lock lock(counters_mutex_);
  return counters_;
}

}  // namespace weft::transfer
