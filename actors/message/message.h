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
#include "core/base/error.h"

namespace weft::actors {

/// The kinds of frames between two processes, as in message.capnp.
enum class MessageKind : std::uint8_t {
  kHello = 1,
  kChallenge,
  kReject,
  kCall,
  kReply,
  kCredit,
  kCancel,
  kGoodbye,
  kBeat,
  kProof,    ///< A Mac, as it is.
  kWelcome,  ///< Empty.
};

/// "call", "reply", ...
std::string_view to_string(MessageKind kind);

/// An interface that a process hosts or uses.
struct InterfaceVersion {
  std::string name;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  friend bool operator==(const InterfaceVersion&, const InterfaceVersion&) = default;
};

/// Whom a process dials: a head, one certain process, or whoever listens there.
struct Wanted {
  bool head = false;
  ProcessId process = {};
  friend bool operator==(const Wanted&, const Wanted&) = default;
};

/// How a process introduces itself in Hello and Challenge.
struct Introduction {
  ProcessRef process;
  std::int32_t pid = 0;
  std::string binary_name;
  std::string binary_hash;
  std::vector<InterfaceVersion> interfaces;
  /// Both sides use the lower one: what is newer is not sent.
  std::uint8_t minor = kProtocolMinor;
  /// In Hello. All others refuse.
  Wanted wanted = {};
  /// Random, of one connection: what the other side's proof is made for.
  std::array<std::byte, 32> nonce{};
  /// Which token the proof is made with (see TokenRing); 0: that of its cluster.
  std::uint64_t token_id = 0;
  /// Its processor has AES instructions; see Aead::choose().
  bool has_aes = false;
  friend bool operator==(const Introduction&, const Introduction&) = default;
};

struct Reject {
  ErrorCode code = ErrorCode::kIncompatible;
  std::string text;
  std::string hint;
  bool duplicate = false;
  ProcessId process;  ///< Who refuses.
  /// It came after both proofs, encrypted: its sender knows the token. Does not travel.
  bool proven = false;
  friend bool operator==(const Reject&, const Reject&) = default;
};

struct Call {
  std::uint64_t id = 0;  ///< Chosen by the caller; 0 for one-way calls.
  ActorId actor;
  std::uint64_t interface_fingerprint = 0;
  std::uint32_t method = 0;
  bool urgent = false;
  /// Until the caller's deadline, measured when it is sent; 0 for none.
  std::int64_t remaining_ns = 0;
  std::vector<std::byte> arguments;
  friend bool operator==(const Call&, const Call&) = default;
};

struct Reply {
  std::uint64_t id = 0;
  std::variant<std::vector<std::byte>, Error> result;
  friend bool operator==(const Reply&, const Reply&) = default;
};

struct Credit {
  ActorId actor;
  std::uint64_t consumed_messages = 0;
  std::uint64_t consumed_bytes = 0;
  std::uint32_t window_messages = 0;
  std::uint64_t window_bytes = 0;
  /// From the sender: it holds calls back and asks for a report; the rest is 0.
  bool request = false;
  friend bool operator==(const Credit&, const Credit&) = default;
};

/// The last message of a connection.
struct Goodbye {
  std::string reason;
  bool lives = false;  ///< Only the connection ends: the sender goes on, and may connect again.
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

/// Receives the bytes of one message, valid during the call.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Writes one flat Cap'n Proto segment.
void encode_hello(const Introduction& introduction, const ByteSink& sink);
void encode_challenge(const Introduction& introduction, const ByteSink& sink);
void encode_reject(const Reject& reject, const ByteSink& sink);
void encode_call(const Call& call, const ByteSink& sink);
void encode_reply(const Reply& reply, const ByteSink& sink);
void encode_credit(const Credit& credit, const ByteSink& sink);
void encode_cancel(std::uint64_t id, const ByteSink& sink);
void encode_goodbye(const Goodbye& goodbye, const ByteSink& sink);

/// Each throws Error(kDataLoss) if the bytes are damaged. `bytes` starts at a multiple of 8.
/// Nobody has the process id 0.
Introduction decode_hello(std::span<const std::byte> bytes);
Introduction decode_challenge(std::span<const std::byte> bytes);
Reject decode_reject(std::span<const std::byte> bytes);
Call decode_call(std::span<const std::byte> bytes);
Reply decode_reply(std::span<const std::byte> bytes);
Credit decode_credit(std::span<const std::byte> bytes);
std::uint64_t decode_cancel(std::span<const std::byte> bytes);
Goodbye decode_goodbye(std::span<const std::byte> bytes);

}  // namespace weft::actors
