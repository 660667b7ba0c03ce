#include "actors/link/link.h"

#include <fmt/format.h>

namespace weft::actors {

namespace {
/// Limit of unanswered calls up to which the calling thread writes by itself. Above, the loop's
/// thread writes many calls at once.
constexpr int kWriteAtOnce = 2;
}  // namespace

std::shared_ptr<Connection> Link::connection() const {
  const std::lock_guard lock(mutex_);
  return connection_;
}

bool Link::is_private() const {
  const auto connection = this->connection();
  return connection && connection->is_private();
}

void Link::attach(std::shared_ptr<Connection> connection, PeerDescription other,
                  bool dialled_here) {
  introduction_ = std::move(other);
  dialled_here_ = dialled_here;
  dial_claimed_ = true;
  attached_at_ = SteadyClock().now();
  lease_.renew(attached_at_);
  connection->set_handler(*this, kMaxFrameBody);
  {
    const std::lock_guard lock(mutex_);
    connection_ = std::move(connection);
  }
  open();
}

std::shared_ptr<Connection> Link::close_connection(const Error& reason) {
  close(reason);
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = std::move(connection_);
    connection_ = nullptr;
  }
  if (connection) connection->stop();
  return connection;
}

void Link::say_goodbye(const Goodbye& goodbye) {
  const std::lock_guard lock(mutex_);
  if (!connection_) return;
  encode_goodbye(goodbye, [&](const MessageBytes& bytes) {
    append_message(*connection_, MessageKind::kGoodbye, bytes);
  });
}

Nanoseconds Link::send_heartbeat() {
  const auto connection = this->connection();
  if (connection && !wrote_.exchange(false, std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex_);
    connection->append(static_cast<std::uint8_t>(MessageKind::kHeartbeat), 0, {});
  }
  if (connection) connection->flush();
  return lease_.update(SteadyClock().now());
}

std::optional<Error> Link::transmit(OutgoingCall& outgoing) {
  // An older process would run it.
  if (outgoing.call.order.kind == CallOrder::Kind::kSkip && introduction_.minor < CallOrder::kMinor)
    return std::nullopt;
  if (introduction_.minor < outgoing.needs_minor)
    return Error(
        ErrorCode::kIncompatible,
        fmt::format("{} speaks protocol {}.{}, and the call needs {}.{}", describe(introduction_),
                    kProtocolMajor, introduction_.minor, kProtocolMajor, outgoing.needs_minor));
  outgoing.call.remaining_ns = remaining_until(outgoing.deadline);
  encode_call(outgoing.call, [&](const MessageBytes& bytes) {
    append_message(*connection_, MessageKind::kCall, bytes);
  });
  if (outgoing.call.id != 0) unanswered_.fetch_add(1, std::memory_order_relaxed);
  wrote_.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

void Link::flush(bool answer_awaited) {
  const auto connection = this->connection();
  if (!connection) return;
  if (answer_awaited && unanswered_.load(std::memory_order_relaxed) <= kWriteAtOnce)
    connection->flush();
  else connection->schedule_flush();
}

void Link::reply(Reply reply, bool more) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (!connection) return;
    encode_reply(reply, [&](const MessageBytes& bytes) {
      append_message(*connection, MessageKind::kReply, bytes);
    });
    wrote_.store(true, std::memory_order_relaxed);
  }
  more ? connection->schedule_flush() : connection->flush();
}

void Link::send_values(Values values) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (!connection) return;
    encode_values(values, [&](const MessageBytes& bytes) {
      append_message(*connection, MessageKind::kValues, bytes);
    });
    wrote_.store(true, std::memory_order_relaxed);
  }
  connection->schedule_flush();
}

void Link::run_soon(std::function<void()> send) {
  if (const auto connection = this->connection()) connection->post(std::move(send));
}

void Link::request_credit(ActorId actor) {
  Credit request;
  request.actor = actor;
  request.request = true;
  grant(request);
}

void Link::grant(const Credit& credit) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (!connection) return;
    encode_credit(credit, [&](const MessageBytes& bytes) {
      append_message(*connection, MessageKind::kCredit, bytes);
    });
  }
  connection->schedule_flush();
}

void Link::send_cancel(std::uint64_t call_id) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (!connection) return;
    encode_cancel(call_id, [&](const MessageBytes& bytes) {
      append_message(*connection, MessageKind::kCancel, bytes);
    });
  }
  connection->schedule_flush();
}

void Link::send_pull(const Pull& pull) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (!connection) return;
    encode_pull(pull, [&](const MessageBytes& bytes) {
      append_message(*connection, MessageKind::kPull, bytes);
    });
  }
  connection->flush();
}

void Link::on_frame(const FrameHeader& header, std::span<const std::byte> body) {
  const auto message = assembler_.add(header, body);
  if (!message) return;
  switch (message->kind) {
    case MessageKind::kCall: return events_.on_call(*this, decode_call(message->bytes));
    case MessageKind::kReply:
      unanswered_.fetch_sub(1, std::memory_order_relaxed);
      return events_.on_reply(*this, decode_reply(message->bytes));
    case MessageKind::kCredit: {
      const Credit credit = decode_credit(message->bytes);
      if (credit.request) return events_.on_credit_request(*this, credit.actor);
      return on_credit(credit);
    }
    case MessageKind::kCancel: return events_.on_cancel(*this, decode_cancel(message->bytes));
    case MessageKind::kValues: return events_.on_values(*this, decode_values(message->bytes));
    case MessageKind::kPull: return events_.on_pull(*this, decode_pull(message->bytes));
    case MessageKind::kGoodbye: {
      const Goodbye goodbye = decode_goodbye(message->bytes);
      return end(goodbye.connection_only ? LinkEvents::EndCause::kDisconnected
                                         : LinkEvents::EndCause::kExited,
                 Error(ErrorCode::kPeerDied,
                       fmt::format("{} {}: {}", describe(introduction_),
                                   goodbye.connection_only ? "closed the connection" : "exited",
                                   goodbye.reason)));
    }
    case MessageKind::kHeartbeat: return;
    default: throw_error(ErrorCode::kDataLoss, "an unexpected {} frame", to_string(message->kind));
  }
}

void Link::on_batch_end() {
  received_ = true;
  lease_.renew(SteadyClock().now());
}

void Link::on_closed(const Error& reason) {
  if (reason.code() == ErrorCode::kUnavailable)
    return end(LinkEvents::EndCause::kEof,
               Error(ErrorCode::kPeerDied, fmt::format("connection to {} lost: {}",
                                                       describe(introduction_), reason.message())));
  end(LinkEvents::EndCause::kProtocolError,
      Error(reason.code(),
            fmt::format("connection to {} ended: {}", describe(introduction_), reason.message())));
}

void Link::end(LinkEvents::EndCause how, const Error& reason) {
  ended_ = true;
  suspend();
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = std::move(connection_);
    connection_ = nullptr;
  }
  if (connection) connection->stop();
  events_.on_ended(*this, how, reason);
}

}  // namespace weft::actors
