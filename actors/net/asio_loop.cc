// Event loop, sockets and timers by Asio. A standard header comes before Asio's: Asio reads a macro
// of libstdc++ to choose its allocator.
#include <sys/socket.h>

#include <asio/connect.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <system_error>

#include "actors/net/network.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

using Tcp = asio::ip::tcp;

Error unavailable(const std::string& why) { return Error(ErrorCode::kUnavailable, why); }

/// Returns nullopt if the name has to be resolved.
std::optional<Tcp::endpoint> numeric_endpoint(const Address& address) {
  asio::error_code not_numeric;
  const auto host = asio::ip::make_address(localhost_to_ipv4(address.host), not_numeric);
  return not_numeric ? std::nullopt : std::optional(Tcp::endpoint(host, address.port));
}

class AsioStream final : public ByteStream {
 public:
  explicit AsioStream(Tcp::socket socket) : socket_(std::move(socket)) {
    asio::error_code ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
    socket_.native_non_blocking(true, ignored);
    fd_ = socket_.native_handle();
  }

  Address peer_address() const override {
    asio::error_code error;
    const auto endpoint = socket_.remote_endpoint(error);
    return error ? Address{} : Address{endpoint.address().to_string(), endpoint.port()};
  }

  void read_some(std::span<std::byte> into,
                 std::function<void(std::size_t, const std::optional<Error>&)> then) override {
    socket_.async_read_some(
        asio::buffer(into.data(), into.size()),
        [then = std::move(then)](const asio::error_code& error, std::size_t count) {
          if (!error) return then(count, std::nullopt);
          // The peer's system reports these. Other errors do not tell whether the peer is alive.
          if (error == asio::error::eof || error == asio::error::connection_reset)
            return then(0, unavailable("connection closed by the other side"));
          then(0, Error(ErrorCode::kDeadlineExceeded, "connection failed: " + error.message()));
        });
  }

  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    while (true) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return sent;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
      if (errno != EINTR) return std::nullopt;
    }
  }

  void wait_for_room(std::function<void(bool)> then) override {
    socket_.async_wait(Tcp::socket::wait_write,
                       [then = std::move(then)](const asio::error_code& error) { then(!error); });
  }

  void shut_down() override { ::shutdown(fd_, SHUT_RDWR); }

 private:
  Tcp::socket socket_;
  int fd_ = -1;
};

class AsioAlarm final : public IoLoop::Alarm {
 public:
  explicit AsioAlarm(asio::io_context& context) : timer_(context) {}
  void start(TimePoint at, std::function<void()> then) override {
    timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
    timer_.async_wait([then = std::move(then)](const asio::error_code& error) {
      if (!error) then();
    });
  }
  void cancel() override { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

class AsioAcceptor final : public IoLoop::StreamAcceptor {
 public:
  AsioAcceptor(asio::io_context& context, const Address& address)
      : acceptor_(context), address_(address) {
    try {
      auto endpoint = numeric_endpoint(address);
      if (!endpoint) {
        Tcp::resolver resolver(context);
        endpoint = *resolver.resolve(address.host, std::to_string(address.port)).begin();
      }
      acceptor_.open(endpoint->protocol());
      acceptor_.set_option(Tcp::acceptor::reuse_address(true));
      acceptor_.bind(*endpoint);
      acceptor_.listen();
      // A name may resolve to an unexpected address, such as loopback.
      address_ = {acceptor_.local_endpoint().address().to_string(),
                  acceptor_.local_endpoint().port()};
    } catch (const std::system_error& error) {
      throw unavailable(error.code().message());
    }
  }
  Address address() const override { return address_; }

  void accept(std::function<void(Outcome<std::unique_ptr<ByteStream>>)> then) override {
    acceptor_.async_accept(
        [this, then = std::move(then)](const asio::error_code& error, Tcp::socket socket) {
          if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
          if (error) return then(unavailable(error.message()));
          then(std::unique_ptr<ByteStream>(std::make_unique<AsioStream>(std::move(socket))));
        });
  }
  void close() override {
    asio::error_code ignored;
    acceptor_.close(ignored);
  }

 private:
  Tcp::acceptor acceptor_;
  Address address_;
};

/// Connector by Asio. Cancelled callbacks may still be queued when it is destroyed: they hold the
/// attempt, whose `then` is null by then.
class AsioConnector final : public IoLoop::StreamConnector {
 public:
  using Then = std::function<void(Outcome<std::unique_ptr<ByteStream>>)>;
  explicit AsioConnector(asio::io_context& context) : context_(context) {}
  ~AsioConnector() override { cancel(); }

  void connect(const Address& address, Then then) override {
    cancel();
    attempt_ = std::make_shared<ConnectAttempt>(context_, std::move(then));
    if (const auto endpoint = numeric_endpoint(address)) return attempt_->connect(*endpoint);
    attempt_->resolver.async_resolve(
        address.host, std::to_string(address.port),
        [attempt = attempt_](const asio::error_code& error,
                             const Tcp::resolver::results_type& results) {
          if (!attempt->then) return;
          if (error == asio::error::host_not_found || error == asio::error::no_data)
            return attempt->end(Error(ErrorCode::kNotFound, error.message()));
          if (error) return attempt->end(unavailable(error.message()));
          attempt->connect(*results.begin());
        });
  }
  void cancel() override {
    if (!attempt_) return;
    attempt_->then = nullptr;
    attempt_->resolver.cancel();
    asio::error_code ignored;
    attempt_->socket.close(ignored);
    attempt_ = nullptr;
  }

 private:
  struct ConnectAttempt : std::enable_shared_from_this<ConnectAttempt> {
    ConnectAttempt(asio::io_context& context, Then callback)
        : resolver(context), socket(context), then(std::move(callback)) {}
    void connect(const Tcp::endpoint& endpoint) {
      socket.async_connect(endpoint, [self = shared_from_this()](const asio::error_code& error) {
        if (!self->then) return;
        if (error) return self->end(unavailable(error.message()));
        self->end(
            std::unique_ptr<ByteStream>(std::make_unique<AsioStream>(std::move(self->socket))));
      });
    }
    void end(Outcome<std::unique_ptr<ByteStream>> outcome) {
      if (const Then tell = std::exchange(then, nullptr)) tell(std::move(outcome));
    }
    Tcp::resolver resolver;
    Tcp::socket socket;
    Then then;
  };
  asio::io_context& context_;
  std::shared_ptr<ConnectAttempt> attempt_;  // shared with its pending callbacks
};

class AsioLoop final : public IoLoop {
 public:
  AsioLoop(const std::string& thread_name, ThreadPriority share)
      : thread_(thread_name, share, [this] { context_.run(); }) {}
  ~AsioLoop() override { stop(); }

  void post(std::function<void()> callback) override { asio::post(context_, std::move(callback)); }
  bool in_loop() const override { return thread_.is_current(); }
  void stop() override {
    work_.reset();
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }
  std::unique_ptr<Alarm> make_alarm() override { return std::make_unique<AsioAlarm>(context_); }
  std::unique_ptr<StreamAcceptor> listen(const Address& address) override {
    return std::make_unique<AsioAcceptor>(context_, address);
  }
  std::unique_ptr<StreamConnector> make_connector() override {
    return std::make_unique<AsioConnector>(context_);
  }

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  Thread thread_;
};

}  // namespace

std::unique_ptr<IoLoop> make_asio_loop(const std::string& thread_name, ThreadPriority share) {
  return std::make_unique<AsioLoop>(thread_name, share);
}

}  // namespace weft::actors
