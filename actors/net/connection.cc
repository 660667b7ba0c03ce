#include "actors/net/connection.h"

#include <algorithm>
#include <cstring>

#include "actors/net/encrypted_stream.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"

namespace weft::actors {

namespace {
/// Initial size of the read buffer, which grows when reads fill it: most connections carry little.
constexpr std::size_t kFirstReadBuffer = 4u << 10;
constexpr std::size_t kReadBuffer = 64u << 10;
constexpr std::size_t kKeepCapacity = 1 << 20;
}  // namespace

Connection::Connection(EventLoop& loop, std::unique_ptr<ByteStream> stream)
    : loop_(loop),
      stream_(std::move(stream)),
      peer_(stream_->peer_address()),
      input_(kFirstReadBuffer) {}

Connection::~Connection() = default;

void Connection::start(FrameHandler& handler, std::uint32_t max_body) {
  handler_ = &handler;
  max_body_ = max_body;
  read_more();
}

std::span<const std::byte> Connection::channel_binding() const {
  return stream_->channel_binding();
}
bool Connection::violates_tls_policy() const { return stream_->violates_tls_policy(); }
bool Connection::is_private() const {
  return !channel_binding().empty() || is_loopback(peer_.host);
}

void Connection::seal(const StreamKeys& keys) {
  if (stream_->is_private()) return;
  flush();
  const std::lock_guard lock(mutex_);
  if (flushing_ || !appended_.empty() || written_ < writing_.size())
    throw_error(ErrorCode::kUnavailable,
                "{} did not read the handshake: its receive buffer is full", to_string(peer_));
  stream_ = actors::seal(std::move(stream_), keys,
                         std::span(input_).subspan(input_begin_, input_end_ - input_begin_));
  input_begin_ = input_end_ = 0;
}

void Connection::stop() {
  handler_ = nullptr;
  const bool nothing_leaves = stream_->abort_handshake();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (nothing_leaves) {
      closed_ = true;
      appended_.clear();
      sent_.notify_all();
      return;
    }
    // A thread that is flushing shuts the socket down afterwards.
    if (!flushing_ && appended_.empty()) {
      closed_ = true;
      stream_->shut_down();
    }
  }
  flush();
}

void Connection::make_room(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_ || stopping_) return;
  const std::size_t frames = bytes / kMaxFrameBody + 1;
  const std::size_t needed = appended_.size() + bytes + frames * kFrameHeaderBytes;
  // At least twice as much, so that many messages are not moved for each one.
  if (needed > appended_.capacity() && needed <= kMaxUnsentBytes)
    appended_.reserve(std::max(needed, 2 * appended_.capacity()));
}

void Connection::append(std::uint8_t kind, std::uint8_t flags, std::span<const std::byte> body,
                        std::span<const std::byte> rest) {
  const std::lock_guard lock(mutex_);
  if (closed_ || stopping_) return;
  FrameHeader header;
  header.major = kProtocolMajor;
  header.minor = kProtocolMinor;
  header.kind = kind;
  header.flags = flags;
  header.length = body.size() + padded(rest.size());
  header.sequence = next_output_++;
  if (appended_.size() + writing_.size() - written_ + header.length > kMaxUnsentBytes) {
    // The pending read ends and reports the overflow.
    overflowed_ = closed_ = true;
    appended_.clear();
    stream_->shut_down();
    sent_.notify_all();
    return;
  }
  const auto packed = pack(header);
  appended_.insert(appended_.end(), packed.begin(), packed.end());
  appended_.insert(appended_.end(), body.begin(), body.end());
  appended_.insert(appended_.end(), rest.begin(), rest.end());
  appended_.resize(appended_.size() + padded(header.length) - body.size() - rest.size());
}

void Connection::flush() {
  std::unique_lock lock(mutex_);
  if (flushing_ || closed_) return;
  flushing_ = true;
  while (true) {
    if (written_ == writing_.size()) {
      writing_.clear();
      if (writing_.capacity() > kKeepCapacity) writing_.shrink_to_fit();
      written_ = 0;
      if (appended_.empty()) {
        flushing_ = false;
        if (stopping_) {
          closed_ = true;
          stream_->shut_down();
        }
        sent_.notify_all();
        return;
      }
      std::swap(writing_, appended_);
    }
    lock.unlock();
    const std::optional<std::size_t> sent =
        stream_->write_some(std::span(writing_).subspan(written_));
    lock.lock();
    if (!sent) {
      // The reading side sees the same end and reports it. Unsent data is dropped.
      flushing_ = false;
      closed_ = true;
      appended_.clear();
      stream_->shut_down();
      sent_.notify_all();
      return;
    }
    if (*sent == 0) {
      lock.unlock();
      wait_writable();  // keeps flushing_: the loop's thread continues
      return;
    }
    written_ += *sent;
    if (closed_) {
      flushing_ = false;
      return;
    }
  }
}

void Connection::wait_writable() {
  loop_.post([self = shared_from_this()] {
    self->stream_->wait_for_room([self](bool there) {
      {
        const std::lock_guard lock(self->mutex_);
        self->flushing_ = false;
        if (!there) {
          self->closed_ = true;
          self->sent_.notify_all();
        }
      }
      if (there) self->flush();
    });
  });
}

void Connection::schedule_flush() {
  if (flush_posted_.exchange(true)) return;
  loop_.post([self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

std::size_t Connection::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return appended_.size() + (writing_.size() - written_);
}

void Connection::wait_sent(TimePoint limit) const {
  std::unique_lock lock(mutex_);
  sent_.wait_until(lock, limit, [this] {
    return closed_ || (appended_.empty() && written_ == writing_.size());
  });
}

void Connection::read_more() {
  // Room for the rest of a partial frame, which moves to the front by a multiple of 8, so that
  // bodies stay aligned.
  const bool filled = input_end_ == input_.size();
  if (input_begin_ == input_end_) {
    input_begin_ = input_end_ = 0;
  } else if (input_.size() - input_end_ < input_.size() / 4 && input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  if (input_end_ == input_.size() || (filled && input_.size() < kReadBuffer))
    input_.resize(std::min(input_.size() * 2, kFrameHeaderBytes + padded(kMaxFrameBody)));
  stream_->read_some(
      std::span(input_).subspan(input_end_),
      [self = shared_from_this()](std::size_t count, const std::optional<Error>& error) {
        if (!self->handler_) return;
        if (error) return self->close(*error);
        self->input_end_ += count;
        try {
          self->parse();
        } catch (const Error& damage) {
          if (self->handler_) self->handler_->on_protocol_error(damage);
          self->flush();
          return self->close(damage);
        }
        if (self->handler_) self->read_more();
      });
}

void Connection::parse() {
  while (handler_ && input_end_ - input_begin_ >= kFrameHeaderBytes) {
    const auto header = unpack(std::span<const std::byte, kFrameHeaderBytes>(
                                   input_.data() + input_begin_, kFrameHeaderBytes),
                               next_input_, max_body_);
    const std::size_t frame_bytes = kFrameHeaderBytes + padded(header.length);
    if (input_end_ - input_begin_ < frame_bytes) break;
    ++next_input_;
    const std::span<const std::byte> body(input_.data() + input_begin_ + kFrameHeaderBytes,
                                          header.length);
    input_begin_ += frame_bytes;
    handler_->on_frame(header, body);
  }
  if (handler_) handler_->on_batch_end();
}

void Connection::close(const Error& what) {
  Error reason = what;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (overflowed_)
      reason =
          Error(ErrorCode::kResourceExhausted,
                fmt::format("the other side did not read {} MiB of data; the connection was closed",
                            kMaxUnsentBytes >> 20));
    stream_->shut_down();
    sent_.notify_all();
  }
  if (FrameHandler* handler = std::exchange(handler_, nullptr)) handler->on_closed(reason);
}

}  // namespace weft::actors
