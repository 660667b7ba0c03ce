#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/call/combine.h"
#include "actors/message/ids.h"
#include "actors/message/message.h"
#include "core/codec/error_codec.h"

namespace weft::actors {

// Messages of calls that travel over relays. They are calls of actor 0 (SystemMethod), so they are
// ordered by their links, need no credit, and fail with their links:
//
//   parent ── kRelay, kRelayChunk..., kRelayCancel ──► child
//          ◄── kRelayResults..., the reply to kRelay ──

/// Minor version of the protocol that has these messages.
inline constexpr std::uint8_t kRelayMinor = CallOrder::kMinor;

}  // namespace weft::actors

template <>
struct weft::last_enumerator<weft::actors::ReplyState> {
  static constexpr auto kValue = weft::actors::ReplyState::kLost;
};
template <>
struct weft::last_enumerator<weft::actors::ReduceOperation> {
  static constexpr auto kValue = weft::actors::ReduceOperation::kListed;
};

namespace weft::actors {

/// Bytes of arguments in one message, at most. Larger arguments follow kRelay in chunks, which
/// relays pass on as they arrive. A chunk with its envelope fits in a frame.
inline constexpr std::size_t kRelayChunkBytes = (std::size_t{1} << 20) - 4096;
/// Bytes of arguments that kRelay has itself, at most.
inline constexpr std::size_t kMaxInlineBytes = std::size_t{64} << 10;

/// Call of one actor in a tree.
struct RelayedCall {
  std::uint64_t id = 0;  ///< Id of the call at its origin.
  ActorId actor;
  std::uint64_t stream = 0;  ///< See CallOrder.
  std::uint64_t number = 0;  ///< See CallOrder.
  std::uint32_t rank = 0;    ///< Position among the actors of the call.
  static constexpr auto fields =
      weft::fields(&RelayedCall::id, &RelayedCall::actor, &RelayedCall::stream,
                   &RelayedCall::number, &RelayedCall::rank);
};

/// Process in a tree, and the calls of its actors.
struct RelayNode {
  ProcessRef process;
  std::vector<RelayedCall> calls;
  static constexpr auto fields = weft::fields(&RelayNode::process, &RelayNode::calls);
};

/// Same for all actors of a tree.
struct RelayHeader {
  ProcessRef origin;
  std::uint64_t run = 0;  ///< Run of the origin.
  std::uint64_t fingerprint = 0;
  std::uint32_t method = 0;
  bool urgent = false;
  bool one_way = false;           ///< Values of results are dropped.
  std::int64_t remaining_ns = 0;  ///< Until the deadline; 0: none.
  std::uint64_t bytes = 0;        ///< Of the arguments.
  std::uint32_t num_ranks = 0;
  /// Operation with which relays combine results.
  std::optional<ReduceOperation> reduce;
  std::vector<std::uint64_t> ended;  ///< Calls that must not start: they ended before they left.
  static constexpr auto fields = weft::fields(
      &RelayHeader::origin, &RelayHeader::run, &RelayHeader::fingerprint, &RelayHeader::method,
      &RelayHeader::urgent, &RelayHeader::one_way, &RelayHeader::remaining_ns, &RelayHeader::bytes,
      &RelayHeader::num_ranks, &RelayHeader::reduce, &RelayHeader::ended);
};

/// Argument of kRelay. The first node is the receiver.
struct RelayRequest {
  std::uint64_t key = 0;  ///< Names the request in later messages between the two processes.
  RelayHeader header;
  std::uint64_t first = 0;  ///< Position of the first node in the whole tree.
  std::vector<RelayNode> nodes;
  std::vector<std::byte> arguments;  ///< Empty if they follow in chunks.
  static constexpr auto fields =
      weft::fields(&RelayRequest::key, &RelayRequest::header, &RelayRequest::first,
                   &RelayRequest::nodes, &RelayRequest::arguments);
};

/// Argument of kRelayCancel.
struct RelayCancel {
  std::uint64_t key = 0;
  std::vector<std::uint64_t> ids;  ///< Empty: all calls.
  static constexpr auto fields = weft::fields(&RelayCancel::key, &RelayCancel::ids);
};

struct RelayedResult {
  std::uint64_t id = 0;
  ReplyState state = ReplyState::kAnswered;
  std::vector<std::byte> value;
  std::optional<Error> error;
  std::optional<ProcessId> refuser;  ///< Process that relays nothing, or cannot be reached.
  static constexpr auto fields =
      weft::fields(&RelayedResult::id, &RelayedResult::state, &RelayedResult::value,
                   &RelayedResult::error, &RelayedResult::refuser);
};

/// Combined result of the calls `ids`; see PartialResult.
struct RelayedPart {
  std::uint32_t level = 0;
  std::uint64_t index = 0;
  std::vector<std::byte> value;
  std::vector<std::uint64_t> ids;
  static constexpr auto fields = weft::fields(&RelayedPart::level, &RelayedPart::index,
                                              &RelayedPart::value, &RelayedPart::ids);
};

/// Result of kRelay, and argument of kRelayResults, which brings some of them earlier.
struct RelayResults {
  std::uint64_t key = 0;
  std::vector<RelayedResult> results;
  std::vector<RelayedPart> parts;
  static constexpr auto fields =
      weft::fields(&RelayResults::key, &RelayResults::results, &RelayResults::parts);

  bool empty() const { return results.empty() && parts.empty(); }
};

/// Encodes results in memory of the right size: values may be large.
std::vector<std::byte> encode_results(const RelayResults& results);

/// Returns the error of a numbered call whose stream is over at its receiver (see CallOrder): its
/// caller begins another stream. The call was not started.
Error stream_ended(std::uint64_t stream);
/// Returns the stream of an error of stream_ended(); nullopt for other errors.
std::optional<std::uint64_t> ended_stream(const Error& error);

/// Argument of kRelayChunk: the key, and bytes up to the end.
std::vector<std::byte> encode_chunk(std::uint64_t key, std::span<const std::byte> bytes);
struct RelayChunk {
  std::uint64_t key = 0;
  std::span<const std::byte> bytes;  ///< Part of the message.
};
/// Throws Error(kDataLoss).
RelayChunk decode_chunk(std::span<const std::byte> message);

}  // namespace weft::actors
