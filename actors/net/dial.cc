#include "actors/net/connection.h"

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>

#include "actors/net/internal/asio_loop.h"
#include "actors/net/internal/socket.h"

namespace weft::actors {

namespace {

/// One dial(): resolve, connect, and perhaps again. Kept alive by its own pending operations.
/// Loop's thread.
class DialAttempt final : public std::enable_shared_from_this<DialAttempt> {
 public:
  DialAttempt(EventLoop& loop, Address address, TimePoint deadline, Retry retry,
              DialCallbacks callbacks)
      : loop_(loop),
        address_(std::move(address)),
        deadline_(deadline),
        retry_(retry),
        callbacks_(std::move(callbacks)),
        limit_(loop),
        pause_(loop),
        resolver_(loop.impl().context),
        socket_(loop.impl().context) {}

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
    resolver_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void attempt() {
    if (done_) return;
    asio::error_code not_numeric;
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address_.host, not_numeric),
                                           address_.port);
    if (!not_numeric) return connect(endpoint);
    resolver_.async_resolve(
        address_.host, std::to_string(address_.port),
        [self = shared_from_this()](const asio::error_code& error,
                                    const asio::ip::tcp::resolver::results_type& results) {
          if (self->done_) return;
          if (error == asio::error::host_not_found || error == asio::error::no_data)
            return self->no_such_host();
          if (error) return self->again(error.message());
          self->connect(*results.begin());
        });
  }

  void connect(const asio::ip::tcp::endpoint& endpoint) {
    socket_ = asio::ip::tcp::socket(loop_.impl().context);
    socket_.async_connect(endpoint, [self = shared_from_this()](const asio::error_code& error) {
      if (self->done_) return;
      if (error) return self->again(error.message());
      auto connection = make_connection(self->loop_, std::move(self->socket_));
      const auto on_connected = std::move(self->callbacks_.on_connected);
      self->finish();
      on_connected(std::move(connection));
    });
  }

  void again(const std::string& reason) {
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
  Timer limit_;
  Timer pause_;
  Nanoseconds next_pause_ = std::chrono::milliseconds(20);
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;
  std::string last_reason_;
  bool done_ = false;
};

}  // namespace

std::function<void()> dial(EventLoop& loop, const Address& address, TimePoint deadline, Retry retry,
                           DialCallbacks callbacks) {
  auto attempt =
      std::make_shared<DialAttempt>(loop, address, deadline, retry, std::move(callbacks));
  loop.post([attempt] { attempt->begin(); });
  return [weak = std::weak_ptr(attempt), &loop] {
    loop.post([weak] {
      if (auto alive = weak.lock()) alive->finish();
    });
  };
}

}  // namespace weft::actors
