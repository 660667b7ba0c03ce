#include "actors/message/message.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "actors/message/message.capnp.h"
#include "core/base/check.h"
#include "core/base/philox.h"

namespace weft::actors {

namespace {
/// Separates ids of names from the ids that a process counts up.
constexpr std::uint64_t kNamedBit = std::uint64_t{1} << 63;
}  // namespace

std::vector<std::byte> MessageBytes::joined() const {
  std::vector<std::byte> bytes(size());
  std::ranges::copy(payload, std::ranges::copy(head, bytes.begin()).out);
  return bytes;
}

ActorId actor_id_of(std::string_view name) {
  return ActorId(fnv1a(name.data(), name.size()) | kNamedBit);
}

bool is_named(ActorId actor) { return (actor.value() & kNamedBit) != 0; }

std::int64_t remaining_until(TimePoint deadline) {
  if (deadline == TimePoint::max()) return 0;
  return std::max<std::int64_t>(1, (deadline - SteadyClock().now()).count());
}

TimePoint deadline_with_remaining(std::int64_t remaining_ns) {
  if (remaining_ns == 0) return TimePoint::max();
  const TimePoint now = SteadyClock().now();
  if (remaining_ns < 0) return now;
  const std::int64_t left = (TimePoint::max() - now).count();
  return remaining_ns < left ? now + Nanoseconds(remaining_ns) : TimePoint::max();
}

ActorId lost_actor_id(std::string_view label) {
  return ActorId(fnv1a(label.data(), label.size()) >> 2 | (std::uint64_t{1} << 62));
}

std::string_view to_string(MessageKind kind) {
  switch (kind) {
    case MessageKind::kHello: return "hello";
    case MessageKind::kChallenge: return "challenge";
    case MessageKind::kReject: return "reject";
    case MessageKind::kCall: return "call";
    case MessageKind::kReply: return "reply";
    case MessageKind::kCredit: return "credit";
    case MessageKind::kCancel: return "cancel";
    case MessageKind::kGoodbye: return "goodbye";
    case MessageKind::kHeartbeat: return "heartbeat";
    case MessageKind::kProof: return "proof";
    case MessageKind::kWelcome: return "welcome";
    case MessageKind::kValues: return "values";
    case MessageKind::kPull: return "pull";
  }
  return "unknown";
}

namespace {

constexpr std::size_t kInlineWords = 128;
constexpr int kMaxNesting = 8;

/// Builder of a message of one segment, in memory of its user.
class SegmentBuilder final : public capnp::MessageBuilder {
 public:
  explicit SegmentBuilder(kj::ArrayPtr<capnp::word> words) : words_(words) {}
  kj::ArrayPtr<capnp::word> allocateSegment(unsigned) override {
    WEFT_CHECK(!std::exchange(is_used_, true), "a message of {} words was estimated too small",
               words_.size());
    return words_;
  }

 private:
  const kj::ArrayPtr<capnp::word> words_;
  bool is_used_ = false;
};

/// Builds a message of at most `words` words, so that it is one segment, and passes it to `sink`.
/// Its last `payload` bytes, up to padding, are not written here: the sink gets them as they are.
template <typename Struct, typename Fill>
void build(std::size_t words, std::span<const std::byte> payload, const ByteSink& sink, Fill fill) {
  // Cap'n Proto expects zeros, but only where it writes: not in the payload.
  const std::size_t zeros = words - payload.size() / 8;
  std::array<capnp::word, kInlineWords> inline_words;
  // capnp::word is not copyable, so the array holds integers
  std::unique_ptr<std::uint64_t[]> heap_words;
  capnp::word* begin = inline_words.data();
  if (words > kInlineWords) {
    heap_words = std::make_unique_for_overwrite<std::uint64_t[]>(words);
    begin = reinterpret_cast<capnp::word*>(heap_words.get());
  }
  std::memset(static_cast<void*>(begin), 0, zeros * sizeof(capnp::word));
  SegmentBuilder builder(kj::ArrayPtr<capnp::word>(begin, words));
  fill(builder.initRoot<Struct>());
  const auto bytes = builder.getSegmentsForOutput()[0].asBytes();
  const std::size_t head = bytes.size() - padded(payload.size());
  WEFT_CHECK(head <= zeros * sizeof(capnp::word), "a message of {} words has a head of {} bytes",
             words, head);
  sink({{reinterpret_cast<const std::byte*>(bytes.begin()), head}, payload});
}

template <typename Struct, typename Fill>
void build(std::size_t words, const ByteSink& sink, Fill fill) {
  build<Struct>(words, {}, sink, fill);
}

/// Returns the words of a struct with its root pointer, and of `pieces` texts or data of `bytes` in
/// all.
constexpr std::size_t words_for(std::size_t struct_words, std::size_t bytes, std::size_t pieces) {
  return 1 + struct_words + bytes / 8 + 2 * pieces;
}

capnp::Data::Reader data_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
capnp::Text::Reader text_of(const std::string& text) { return {text.c_str(), text.size()}; }
std::string string_of(capnp::Text::Reader text) { return {text.cStr(), text.size()}; }
std::vector<std::byte> bytes_of(capnp::Data::Reader data) {
  const auto* begin = reinterpret_cast<const std::byte*>(data.begin());
  return {begin, begin + data.size()};
}

/// Reads a message of one flat segment, with reader limits that suit its size.
template <typename Struct, typename Read>
auto parse(std::span<const std::byte> bytes, MessageKind kind, Read read) {
  try {
    if (bytes.size() % sizeof(capnp::word) != 0)
      throw_error(ErrorCode::kDataLoss, "its length is {}, not a multiple of 8", bytes.size());
    const kj::ArrayPtr<const capnp::word> words(reinterpret_cast<const capnp::word*>(bytes.data()),
                                                bytes.size() / sizeof(capnp::word));
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 2 * words.size() + 64;
    options.nestingLimit = kMaxNesting;
    const kj::ArrayPtr<const capnp::word> segments[] = {words};
    capnp::SegmentArrayMessageReader reader(segments, options);
    return read(reader.getRoot<Struct>());
  } catch (const kj::Exception& problem) {
    throw_error(ErrorCode::kDataLoss, "a damaged {} message: {}", to_string(kind),
                problem.getDescription().cStr());
  } catch (const Error& problem) {
    throw_error(ErrorCode::kDataLoss, "a damaged {} message: {}", to_string(kind),
                problem.message());
  }
}

CallOrder order_of(wire::Order::Reader from) {
  if (from.getKind() > static_cast<std::uint8_t>(CallOrder::Kind::kResent))
    throw_error(ErrorCode::kDataLoss, "kind {} of a numbered call does not exist", from.getKind());
  return {from.getStream(), from.getNumber(), static_cast<CallOrder::Kind>(from.getKind())};
}

ReplyState reply_state(std::uint8_t state) {
  if (state > static_cast<std::uint8_t>(ReplyState::kLost))
    throw_error(ErrorCode::kDataLoss, "state {} of a reply does not exist", state);
  return static_cast<ReplyState>(state);
}

ErrorCode error_code(std::uint16_t code) {
  if (!is_error_code(code)) throw_error(ErrorCode::kDataLoss, "error code {} does not exist", code);
  return static_cast<ErrorCode>(code);
}

std::size_t introduction_words(const PeerDescription& from) {
  std::size_t bytes = from.process.name.size() + from.process.address.host.size() +
                      from.binary_name.size() + from.binary_hash.size() + from.nonce.size();
  return words_for(34, bytes, 7);
}

void fill_introduction(wire::Process::Builder to, const PeerDescription& from) {
  to.setId(from.process.id.value());
  to.setName(text_of(from.process.name));
  to.setHost(text_of(from.process.address.host));
  to.setPort(from.process.address.port);
  to.setPid(from.pid);
  to.setBinaryName(text_of(from.binary_name));
  to.setBinaryHash(text_of(from.binary_hash));
  to.setMinor(from.minor);
  to.setNonce(data_of(from.nonce));
  to.setTokenId(from.token_id);
  to.setHasAes(from.has_aes);
  to.setRun(from.run);
}

PeerDescription read_introduction(wire::Process::Reader from) {
  PeerDescription to;
  to.process.id = ProcessId(from.getId());
  to.process.name = string_of(from.getName());
  to.process.address = Address{string_of(from.getHost()), from.getPort()};
  to.pid = from.getPid();
  to.binary_name = string_of(from.getBinaryName());
  to.binary_hash = string_of(from.getBinaryHash());
  to.minor = from.getMinor();
  to.token_id = from.getTokenId();
  to.has_aes = from.getHasAes();
  if (to.process.id.value() == 0) throw_error(ErrorCode::kDataLoss, "a process without an id");
  if (from.getNonce().size() != to.nonce.size())
    throw_error(ErrorCode::kDataLoss, "a nonce of {} bytes instead of {}", from.getNonce().size(),
                to.nonce.size());
  std::memcpy(to.nonce.data(), from.getNonce().begin(), to.nonce.size());
  to.run = from.getRun();
  return to;
}

}  // namespace

void encode_hello(const PeerDescription& introduction, const ByteSink& sink) {
  build<wire::Hello>(introduction_words(introduction) + 2, sink, [&](wire::Hello::Builder to) {
    fill_introduction(to.initProcess(), introduction);
    to.setWanted(introduction.wanted.process.value());
    to.setWantsHead(introduction.wanted.head);
  });
}

void encode_challenge(const PeerDescription& introduction, const ByteSink& sink) {
  build<wire::Challenge>(introduction_words(introduction), sink, [&](wire::Challenge::Builder to) {
    fill_introduction(to.initProcess(), introduction);
  });
}

void encode_reject(const Reject& reject, const ByteSink& sink) {
  build<wire::Reject>(words_for(8, reject.text.size() + reject.hint.size(), 2), sink,
                      [&](wire::Reject::Builder to) {
                        to.setCode(static_cast<std::uint16_t>(reject.code));
                        to.setText(text_of(reject.text));
                        to.setHint(text_of(reject.hint));
                        to.setDuplicate(reject.duplicate);
                        to.setProcessId(reject.process.value());
                      });
}

void encode_call(const Call& call, const ByteSink& sink) {
  const std::size_t words = words_for(14, call.arguments.size(), 1);
  build<wire::Call>(words, call.arguments, sink, [&](wire::Call::Builder to) {
    to.setId(call.id);
    to.setActor(call.actor.value());
    to.setInterface(call.interface_fingerprint);
    to.setMethod(call.method);
    to.setUrgent(call.urgent);
    to.setRemainingNs(call.remaining_ns);
    if (call.order.number != 0) {
      auto order = to.initOrder();
      order.setStream(call.order.stream);
      order.setNumber(call.order.number);
      order.setKind(static_cast<std::uint8_t>(call.order.kind));
    }
    to.initArguments(call.arguments.size());  // last: the payload
  });
}

void encode_reply(const Reply& reply, const ByteSink& sink) {
  if (const auto* value = std::get_if<std::vector<std::byte>>(&reply.result)) {
    build<wire::Reply>(words_for(6, value->size(), 1), *value, sink, [&](wire::Reply::Builder to) {
      to.setId(reply.id);
      to.initValue(value->size());
    });
    return;
  }
  const auto& error = std::get<Error>(reply.result);
  const std::size_t bytes =
      error.message().size() + error.where().size() + error.node().size() + error.actor().size();
  build<wire::Reply>(words_for(14, bytes, 4), sink, [&](wire::Reply::Builder to) {
    to.setId(reply.id);
    to.setState(static_cast<std::uint8_t>(reply.state));
    auto into = to.initError();
    into.setCode(static_cast<std::uint16_t>(error.code()));
    into.setMessage(text_of(error.message()));
    into.setWhere(text_of(error.where()));
    into.setNode(text_of(error.node()));
    into.setActor(text_of(error.actor()));
  });
}

void encode_credit(const Credit& credit, const ByteSink& sink) {
  build<wire::Credit>(words_for(8, 0, 0), sink, [&](wire::Credit::Builder to) {
    to.setActor(credit.actor.value());
    to.setConsumedMessages(credit.consumed_messages);
    to.setConsumedBytes(credit.consumed_bytes);
    to.setWindowMessages(credit.window_messages);
    to.setWindowBytes(credit.window_bytes);
    to.setRequest(credit.request);
  });
}

void encode_cancel(std::uint64_t id, const ByteSink& sink) {
  build<wire::Cancel>(words_for(2, 0, 0), sink, [&](wire::Cancel::Builder to) { to.setId(id); });
}

void encode_goodbye(const Goodbye& goodbye, const ByteSink& sink) {
  build<wire::Goodbye>(words_for(3, goodbye.reason.size(), 1), sink,
                       [&](wire::Goodbye::Builder to) {
                         to.setReason(text_of(goodbye.reason));
                         to.setConnectionOnly(goodbye.connection_only);
                       });
}

void encode_values(const Values& values, const ByteSink& sink) {
  std::size_t bytes = 0;
  for (const auto& value : values.values) bytes += value.size();
  build<wire::Values>(words_for(3, bytes, values.values.size() + 1), sink,
                      [&](wire::Values::Builder to) {
                        to.setId(values.id);
                        auto list = to.initValues(values.values.size());
                        for (unsigned i = 0; i < list.size(); ++i)
                          list.set(i, data_of(values.values[i]));
                      });
}

void encode_pull(const Pull& pull, const ByteSink& sink) {
  build<wire::Pull>(words_for(5, 0, 0), sink, [&](wire::Pull::Builder to) {
    to.setId(pull.id);
    to.setActor(pull.actor.value());
    to.setConsumedValues(pull.consumed_values);
    to.setConsumedBytes(pull.consumed_bytes);
  });
}

PeerDescription decode_hello(std::span<const std::byte> bytes) {
  return parse<wire::Hello>(bytes, MessageKind::kHello, [](wire::Hello::Reader from) {
    PeerDescription introduction = read_introduction(from.getProcess());
    introduction.wanted = {from.getWantsHead(), ProcessId(from.getWanted())};
    return introduction;
  });
}

PeerDescription decode_challenge(std::span<const std::byte> bytes) {
  return parse<wire::Challenge>(bytes, MessageKind::kChallenge, [](wire::Challenge::Reader from) {
    return read_introduction(from.getProcess());
  });
}

Reject decode_reject(std::span<const std::byte> bytes) {
  return parse<wire::Reject>(bytes, MessageKind::kReject, [](wire::Reject::Reader from) {
    return Reject{error_code(from.getCode()), string_of(from.getText()), string_of(from.getHint()),
                  from.getDuplicate(), ProcessId(from.getProcessId())};
  });
}

Call decode_call(std::span<const std::byte> bytes) {
  return parse<wire::Call>(bytes, MessageKind::kCall, [](wire::Call::Reader from) {
    Call call;
    call.id = from.getId();
    call.actor = ActorId(from.getActor());
    call.interface_fingerprint = from.getInterface();
    call.method = from.getMethod();
    call.urgent = from.getUrgent();
    call.remaining_ns = from.getRemainingNs();
    call.arguments = bytes_of(from.getArguments());
    if (from.hasOrder()) call.order = order_of(from.getOrder());
    return call;
  });
}

Reply decode_reply(std::span<const std::byte> bytes) {
  return parse<wire::Reply>(bytes, MessageKind::kReply, [](wire::Reply::Reader from) {
    Reply reply;
    reply.id = from.getId();
    switch (from.which()) {
      case wire::Reply::VALUE: reply.result = bytes_of(from.getValue()); break;
      case wire::Reply::ERROR: {
        const auto error = from.getError();
        reply.state = reply_state(from.getState());
        reply.result = Error(error_code(error.getCode()), string_of(error.getMessage()))
                           .at(string_of(error.getWhere()))
                           .from(string_of(error.getNode()), string_of(error.getActor()));
        break;
      }
      default:
        throw_error(ErrorCode::kDataLoss, "a kind of result that this version does not know");
    }
    return reply;
  });
}

Credit decode_credit(std::span<const std::byte> bytes) {
  return parse<wire::Credit>(bytes, MessageKind::kCredit, [](wire::Credit::Reader from) {
    return Credit{ActorId(from.getActor()), from.getConsumedMessages(), from.getConsumedBytes(),
                  from.getWindowMessages(), from.getWindowBytes(),      from.getRequest()};
  });
}

std::uint64_t decode_cancel(std::span<const std::byte> bytes) {
  return parse<wire::Cancel>(bytes, MessageKind::kCancel,
                             [](wire::Cancel::Reader from) { return from.getId(); });
}

Goodbye decode_goodbye(std::span<const std::byte> bytes) {
  return parse<wire::Goodbye>(bytes, MessageKind::kGoodbye, [](wire::Goodbye::Reader from) {
    return Goodbye{string_of(from.getReason()), from.getConnectionOnly()};
  });
}

Values decode_values(std::span<const std::byte> bytes) {
  return parse<wire::Values>(bytes, MessageKind::kValues, [](wire::Values::Reader from) {
    Values values;
    values.id = from.getId();
    for (const auto value : from.getValues()) values.values.push_back(bytes_of(value));
    return values;
  });
}

Pull decode_pull(std::span<const std::byte> bytes) {
  return parse<wire::Pull>(bytes, MessageKind::kPull, [](wire::Pull::Reader from) {
    return Pull{from.getId(), ActorId(from.getActor()), from.getConsumedValues(),
                from.getConsumedBytes()};
  });
}

}  // namespace weft::actors
