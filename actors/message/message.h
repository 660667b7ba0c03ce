#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/message/ids.h"
#include "actors/net/connection.h"
#include "actors/net/frame.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::actors {

/// Kind of a frame between two processes; see message.capnp.
enum class MessageKind : std::uint8_t {
  kHello = 1,
  kChallenge,
  kReject,
  kCall,
  kReply,
  kCredit,
  kCancel,
  kGoodbye,
  kHeartbeat,
  kProof,    ///< Body: a raw Mac.
  kWelcome,  ///< Body: empty.
  kValues = 20,
  kPull,
};

/// Returns "call", "reply", ...
std::string_view to_string(MessageKind kind);

/// Process that a dialler expects: a head, one certain process, or, by default, any process.
struct ExpectedPeer {
  bool head = false;
  ProcessId process = {};
  friend bool operator==(const ExpectedPeer&, const ExpectedPeer&) = default;
};

/// Content of Hello and Challenge: identity and abilities of a process.
struct PeerDescription {
  ProcessRef process;
  std::int32_t pid = 0;
  std::string binary_name;
  std::string binary_hash;
  /// Id of the run that the process belongs to; 0: none.
  std::uint64_t run = 0;
  /// Minor version of the protocol. Both sides use the lower one and send nothing newer.
  std::uint8_t minor = kProtocolMinor;
  /// Process that a Hello is for. All others refuse.
  ExpectedPeer wanted = {};
  /// Random per connection. The other side's proof covers it.
  std::array<std::byte, 32> nonce{};
  /// Id of the token that the proof uses (see TokenKeyring); 0: the cluster's token.
  std::uint64_t token_id = 0;
  /// True if the processor has AES instructions; see Aead::choose().
  bool has_aes = false;
  friend bool operator==(const PeerDescription&, const PeerDescription&) = default;
};

struct Reject {
  ErrorCode code = ErrorCode::kIncompatible;
  std::string text;
  std::string hint;
  bool duplicate = false;
  ProcessId process;  ///< Process that refuses.
  /// True if it came encrypted, after both proofs: its sender knows the token. Not sent.
  bool authenticated = false;
  friend bool operator==(const Reject&, const Reject&) = default;
};

/// Place of a call among the calls of one process to one actor. Ordinary and urgent calls are
/// numbered apart. Calls are numbered once some of them travel over relays, which may overtake.
struct CallOrder {
  /// Minor version of the protocol from which on processes read it. Earlier ones ignore it.
  static constexpr std::uint8_t kMinor = 1;
  enum class Kind : std::uint8_t {
    kCall,
    kSkip,    ///< Takes the place of a call that does not come any more. Starts nothing.
    kResent,  ///< May have come over relays already. Starts once. Takes no credit.
  };
  std::uint64_t stream = 0;  ///< A higher one replaces lower ones, which are over.
  std::uint64_t number = 0;  ///< Counts from 1; 0: not numbered.
  Kind kind = Kind::kCall;
  friend bool operator==(const CallOrder&, const CallOrder&) = default;
};

struct Call {
  std::uint64_t id = 0;  ///< Chosen by the caller; 0 for one-way calls.
  ActorId actor;
  std::uint64_t interface_fingerprint = 0;
  std::uint32_t method = 0;
  bool urgent = false;
  /// Nanoseconds until the caller's deadline, measured when the call is sent; 0: no deadline.
  std::int64_t remaining_ns = 0;
  std::vector<std::byte> arguments;
  CallOrder order = {};
  friend bool operator==(const Call&, const Call&) = default;
};

/// Returns the nanoseconds until `deadline`, at least 1, for Call::remaining_ns; 0: no deadline.
std::int64_t remaining_until(TimePoint deadline);
/// Returns the deadline of a call that arrives now. Any number is allowed.
TimePoint deadline_with_remaining(std::int64_t remaining_ns);

/// State of a call that has ended, as a reply tells it.
enum class ReplyState : std::uint8_t {
  kAnswered,     ///< Value, or error of the handler.
  kRefused,      ///< Error: the actor's process did not start the call.
  kInterrupted,  ///< Error: the call ran when its actor was stopped for a restart.
  kResultLost,   ///< Error: the handler has returned, and its result cannot be sent.
  kNotSent,      ///< Error, from a relay: the call has not reached the actor's process.
  kLost,         ///< Error, from a relay: whether the call has reached the process is unknown.
};

struct Reply {
  std::uint64_t id = 0;
  std::variant<std::vector<std::byte>, Error> result;
  ReplyState state = ReplyState::kAnswered;
  friend bool operator==(const Reply&, const Reply&) = default;
};

struct Credit {
  ActorId actor;
  std::uint64_t consumed_messages = 0;
  std::uint64_t consumed_bytes = 0;
  std::uint32_t window_messages = 0;
  std::uint64_t window_bytes = 0;
  /// True in a request: the sender holds calls back and asks for a report. The counts are 0 then.
  bool request = false;
  friend bool operator==(const Credit&, const Credit&) = default;
};

/// Values that a generator has yielded, in order. The reply of its call follows the last ones.
struct Values {
  std::uint64_t id = 0;  ///< Id of the call.
  std::vector<std::vector<std::byte>> values;
  friend bool operator==(const Values&, const Values&) = default;
};

/// Report of a generator's reader: what it has taken since the call began.
struct Pull {
  std::uint64_t id = 0;  ///< Id of the call.
  ActorId actor;
  std::uint64_t consumed_values = 0;
  std::uint64_t consumed_bytes = 0;
  friend bool operator==(const Pull&, const Pull&) = default;
};

/// Last message of a connection.
struct Goodbye {
  std::string reason;
  bool connection_only =
      false;  ///< Only the connection ends: the sender continues and may reconnect.
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

/// Bytes of one message: `head`, then `payload` with zeros up to a multiple of 8 bytes. The payload
/// is the value of a reply or the arguments of a call, which need no copy.
struct MessageBytes {
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  /// Returns the size of the message with its zeros.
  std::size_t size() const { return head.size() + padded(payload.size()); }
  /// Returns a copy in one piece.
  std::vector<std::byte> joined() const;
};

/// Callback that receives the bytes of one message, valid during the call.
using ByteSink = std::function<void(const MessageBytes&)>;

/// Encodes a message as one flat Cap'n Proto segment.
void encode_hello(const PeerDescription& introduction, const ByteSink& sink);
void encode_challenge(const PeerDescription& introduction, const ByteSink& sink);
void encode_reject(const Reject& reject, const ByteSink& sink);
void encode_call(const Call& call, const ByteSink& sink);
void encode_reply(const Reply& reply, const ByteSink& sink);
void encode_credit(const Credit& credit, const ByteSink& sink);
void encode_cancel(std::uint64_t id, const ByteSink& sink);
void encode_goodbye(const Goodbye& goodbye, const ByteSink& sink);
void encode_values(const Values& values, const ByteSink& sink);
void encode_pull(const Pull& pull, const ByteSink& sink);

/// Decodes a message. Throws Error(kDataLoss) if it is damaged or introduces a process of id 0.
/// `bytes` starts at a multiple of 8.
PeerDescription decode_hello(std::span<const std::byte> bytes);
PeerDescription decode_challenge(std::span<const std::byte> bytes);
Reject decode_reject(std::span<const std::byte> bytes);
Call decode_call(std::span<const std::byte> bytes);
Reply decode_reply(std::span<const std::byte> bytes);
Credit decode_credit(std::span<const std::byte> bytes);
std::uint64_t decode_cancel(std::span<const std::byte> bytes);
Goodbye decode_goodbye(std::span<const std::byte> bytes);
Values decode_values(std::span<const std::byte> bytes);
Pull decode_pull(std::span<const std::byte> bytes);

}  // namespace weft::actors
