#include "actors/net/connection.h"

#include <algorithm>

#include "actors/net/network.h"
#include "actors/net/tls.h"

namespace weft::actors {

namespace {

/// State of one dial() with its retries. Kept alive by its pending operations. Loop's thread.
class DialAttempt final : public std::enable_shared_from_this<DialAttempt> {
 public:
  DialAttempt(EventLoop& loop, Address address, TimePoint deadline, Retry retry,
              DialCallbacks callbacks, DialTls protection)
      : loop_(loop),
        address_(std::move(address)),
        deadline_(deadline),
        retry_(retry),
        callbacks_(std::move(callbacks)),
        protection_(std::move(protection)),
        limit_(loop),
        pause_(loop),
        connector_(loop.io().make_connector(IoLoop::OnLoopback::kUnixOrTcp)) {}

  void begin() {
    limit_.start(deadline_,
                 [self = shared_from_this()] { self->fail("no answer in the time allowed"); });
    attempt();
  }

  void finish() {
    done_ = true;
    callbacks_ = {};
    limit_.cancel();
    pause_.cancel();
    connector_->cancel();
  }

 private:
  void attempt() {
    if (done_) return;
    connector_->connect(
        address_, [self = shared_from_this()](Outcome<std::unique_ptr<ByteStream>> stream) {
          if (self->done_) return;
          if (!stream.ok())
            return stream.error().code() == ErrorCode::kNotFound
                       ? self->no_such_host()
                       : self->retry_after_pause(stream.error().message());
          std::unique_ptr<ByteStream> dialled = std::move(stream).value();
          if (const DialTls& with = self->protection_; with.tls != nullptr) {
            try {
              dialled = with.tls->wrap_dialled(std::move(dialled), with.certificate);
            } catch (const Error& error) {  // TLS is not available
              return self->end(error);
            }
          }
          auto connection = std::make_shared<Connection>(self->loop_, std::move(dialled));
          const auto on_connected = std::move(self->callbacks_.on_connected);
          self->finish();
          on_connected(std::move(connection));
        });
  }

  void retry_after_pause(const std::string& reason) {
    if (retry_ == Retry::kNever) return fail(reason);
    last_reason_ = reason;
    pause_.start_after(next_pause_, [self = shared_from_this()] { self->attempt(); });
    next_pause_ = std::min<Nanoseconds>(next_pause_ * 2, std::chrono::milliseconds(500));
  }

  void no_such_host() {
    end(Error(ErrorCode::kNotFound,
              fmt::format("cannot connect to {}: there is no host of the name '{}'",
                          to_string(address_), address_.host)));
  }

  void fail(const std::string& reason) {
    const Error error(
        ErrorCode::kUnavailable,
        fmt::format("cannot connect to {}: {}{}", to_string(address_), reason,
                    last_reason_.empty() ? "" : " (last attempt: " + last_reason_ + ")"));
    end(error);
  }

  void end(const Error& error) {
    if (done_) return;
    const auto on_failed = std::move(callbacks_.on_failed);
    finish();
    on_failed(error);
  }

  EventLoop& loop_;
  Address address_;
  TimePoint deadline_;
  Retry retry_;
  DialCallbacks callbacks_;
  const DialTls protection_;
  Timer limit_;
  Timer pause_;
  Nanoseconds next_pause_ = std::chrono::milliseconds(20);
  const std::unique_ptr<IoLoop::StreamConnector> connector_;
  std::string last_reason_;
  bool done_ = false;
};

}  // namespace

std::function<void()> dial(EventLoop& loop, const Address& address, TimePoint deadline, Retry retry,
                           DialCallbacks callbacks, DialTls protection) {
  auto attempt = std::make_shared<DialAttempt>(loop, address, deadline, retry, std::move(callbacks),
                                               std::move(protection));
  loop.post([attempt] { attempt->begin(); });
  return [weak = std::weak_ptr(attempt), &loop] {
    loop.post([weak] {
      if (auto alive = weak.lock()) alive->finish();
    });
  };
}

}  // namespace weft::actors
