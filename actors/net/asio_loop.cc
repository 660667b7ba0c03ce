// Event loop, sockets and timers by Asio. A standard header comes before Asio's: Asio reads a macro
// of libstdc++ to choose its allocator.
#include <sys/socket.h>
#include <unistd.h>

#include <asio/connect.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <deque>
#include <system_error>
#include <type_traits>

#include "actors/net/network.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;

Error unavailable(const std::string& why) { return Error(ErrorCode::kUnavailable, why); }

/// Returns nullopt if the name has to be resolved.
std::optional<Tcp::endpoint> numeric_endpoint(const Address& address) {
  asio::error_code not_numeric;
  const auto host = asio::ip::make_address(localhost_to_ipv4(address.host), not_numeric);
  return not_numeric ? std::nullopt : std::optional(Tcp::endpoint(host, address.port));
}

/// Name of the Unix socket beside a TCP socket that listens on a loopback address. It is in no
/// folder (abstract, unix(7)), and in the namespace of the network, as the TCP socket is.
Local::endpoint local_endpoint(const std::string& host, std::uint16_t port) {
  using namespace std::string_literals;
  return Local::endpoint("\0weft "s + host + ":" + std::to_string(port));
}

/// Returns true if the process at the other end of a Unix socket runs as this user. A dialler sees
/// the process that listens.
bool is_of_this_user(int fd) {
  constexpr uid_t kUnmapped = 65534;  // all users of other user namespaces
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid() &&
         peer.uid != kUnmapped;
}

class AsioStream final : public ByteStream {
 public:
  explicit AsioStream(Tcp::socket socket)
      : peer_(peer_of(socket)), is_private_(false), socket_(std::move(socket)) {
    never_block();
  }
  /// A Unix socket. `peer`: the loopback address that stands for the other side.
  AsioStream(Local::socket socket, Address peer)
      : peer_(std::move(peer)), is_private_(true), socket_(std::move(socket)) {
    never_block();
  }

  Address peer_address() const override { return peer_; }
  bool is_private() const override { return is_private_; }

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
    socket_.async_wait(Socket::wait_write,
                       [then = std::move(then)](const asio::error_code& error) { then(!error); });
  }

  void shut_down() override { ::shutdown(fd_, SHUT_RDWR); }

 private:
  using Socket = asio::generic::stream_protocol::socket;
  void never_block() {
    asio::error_code ignored;
    socket_.native_non_blocking(true, ignored);
  }
  /// Returns the other side's address, and makes a new socket send at once.
  static Address peer_of(Tcp::socket& socket) {
    asio::error_code error;
    socket.set_option(Tcp::no_delay(true), error);
    const auto endpoint = socket.remote_endpoint(error);
    return error ? Address{} : Address{endpoint.address().to_string(), endpoint.port()};
  }

  const Address peer_;  // before the socket, which its constructor moves
  const bool is_private_;
  Socket socket_;
  const int fd_ = socket_.native_handle();
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

/// TCP acceptor, with one of a Unix socket beside it if it listens on loopback.
class AsioAcceptor final : public IoLoop::StreamAcceptor {
 public:
  AsioAcceptor(asio::io_context& context, const Address& address, IoLoop::OnLoopback sockets)
      : sockets_(std::make_shared<Sockets>(context)) {
    Tcp::acceptor& tcp = sockets_->tcp.acceptor;
    try {
      auto endpoint = numeric_endpoint(address);
      if (!endpoint) {
        Tcp::resolver resolver(context);
        endpoint = *resolver.resolve(address.host, std::to_string(address.port)).begin();
      }
      tcp.open(endpoint->protocol());
      tcp.set_option(Tcp::acceptor::reuse_address(true));
      tcp.bind(*endpoint);
      tcp.listen();
      // A name may resolve to an unexpected address, such as loopback.
      address_ = {tcp.local_endpoint().address().to_string(), tcp.local_endpoint().port()};
    } catch (const std::system_error& error) {
      throw unavailable(error.code().message());
    }
    if (sockets == IoLoop::OnLoopback::kUnixOrTcp) listen_locally();
  }
  ~AsioAcceptor() override { close(); }
  Address address() const override { return address_; }

  void accept(Then then) override {
    const auto waiting = std::make_shared<Then>(std::move(then));
    sockets_->waiting = waiting;
    if (!sockets_->ready.empty())
      asio::post(sockets_->tcp.acceptor.get_executor(),
                 [sockets = sockets_, waiting] { sockets->deliver(); });
    begin_accept(sockets_, sockets_->tcp, waiting);
    begin_accept(sockets_, sockets_->local, waiting);
  }
  void close() override {
    asio::error_code ignored;
    sockets_->tcp.acceptor.close(ignored);
    sockets_->local.acceptor.close(ignored);
    sockets_->ready.clear();
  }

 private:
  template <typename Protocol>
  struct Side {
    typename Protocol::acceptor acceptor;
    bool accepts = false;  // a callback is pending
  };
  struct Sockets {
    explicit Sockets(asio::io_context& context)
        : tcp{Tcp::acceptor(context)}, local{Local::acceptor(context)} {}
    void deliver() {
      const auto tell = waiting.lock();
      if (!tell || !*tell || ready.empty()) return;
      auto first = std::move(ready.front());
      ready.pop_front();
      std::exchange(*tell, nullptr)(std::move(first));
    }
    Side<Tcp> tcp;
    Side<Local> local;
    Address local_peer;  // stands for whoever connects to `local`
    std::deque<Outcome<std::unique_ptr<ByteStream>>>
        ready;                    // connections that no accept() has taken
    std::weak_ptr<Then> waiting;  // pending callbacks own it, as it may own the acceptor's user
  };

  /// Other processes of this machine and user then need neither TCP nor encryption. Does nothing if
  /// another process has taken the name.
  void listen_locally() {
    const auto host = sockets_->tcp.acceptor.local_endpoint().address();
    if (!host.is_loopback() && !host.is_unspecified()) return;
    const std::string dialled = host.is_loopback() ? host.to_string() : "127.0.0.1";
    asio::error_code failed;
    Local::acceptor& local = sockets_->local.acceptor;
    local.open(Local(), failed);
    if (!failed) local.bind(local_endpoint(dialled, address_.port), failed);
    if (!failed) local.listen(Local::acceptor::max_listen_connections, failed);
    asio::error_code ignored;
    if (failed) local.close(ignored);
    else sockets_->local_peer = {dialled, 0};
  }

  template <typename Protocol>
  static void begin_accept(const std::shared_ptr<Sockets>& sockets, Side<Protocol>& side,
                           const std::shared_ptr<Then>& waiting) {
    if (!side.acceptor.is_open() || std::exchange(side.accepts, true)) return;
    side.acceptor.async_accept(
        [sockets, waiting, &side](const asio::error_code& error, typename Protocol::socket socket) {
          side.accepts = false;
          if (error == asio::error::operation_aborted || !side.acceptor.is_open()) return;
          if (error) {
            sockets->ready.emplace_back(unavailable(error.message()));
          } else if constexpr (std::is_same_v<Protocol, Tcp>) {
            sockets->ready.emplace_back(std::make_unique<AsioStream>(std::move(socket)));
          } else {
            if (!is_of_this_user(socket.native_handle()))
              return begin_accept(sockets, side, waiting);
            sockets->ready.emplace_back(
                std::make_unique<AsioStream>(std::move(socket), sockets->local_peer));
          }
          sockets->deliver();
        });
  }

  const std::shared_ptr<Sockets> sockets_;  // shared with pending callbacks
  Address address_;
};

/// Connector by Asio. Cancelled callbacks may still be queued when it is destroyed: they hold the
/// attempt, whose `then` is null by then.
class AsioConnector final : public IoLoop::StreamConnector {
 public:
  using Then = std::function<void(Outcome<std::unique_ptr<ByteStream>>)>;
  AsioConnector(asio::io_context& context, IoLoop::OnLoopback sockets)
      : context_(context), sockets_(sockets) {}
  ~AsioConnector() override { cancel(); }

  void connect(const Address& address, Then then) override {
    cancel();
    attempt_ = std::make_shared<ConnectAttempt>(context_, sockets_, std::move(then));
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
    ConnectAttempt(asio::io_context& context, IoLoop::OnLoopback on_loopback, Then callback)
        : sockets(on_loopback), resolver(context), socket(context), then(std::move(callback)) {}
    void connect(const Tcp::endpoint& endpoint) {
      if (auto stream = connect_locally(endpoint)) {
        asio::post(socket.get_executor(),
                   [self = shared_from_this(),
                    local = std::make_shared<std::unique_ptr<ByteStream>>(std::move(stream))] {
                     self->end(std::move(*local));
                   });
        return;
      }
      socket.async_connect(endpoint, [self = shared_from_this()](const asio::error_code& error) {
        if (!self->then) return;
        if (error) return self->end(unavailable(error.message()));
        self->end(
            std::unique_ptr<ByteStream>(std::make_unique<AsioStream>(std::move(self->socket))));
      });
    }
    /// Connects to the Unix socket beside a TCP socket on loopback. Returns null if there is none
    /// of this user that takes a connection now.
    std::unique_ptr<ByteStream> connect_locally(const Tcp::endpoint& endpoint) {
      if (sockets == IoLoop::OnLoopback::kTcp || !endpoint.address().is_loopback()) return nullptr;
      const Address peer{endpoint.address().to_string(), endpoint.port()};
      Local::socket local(socket.get_executor());
      asio::error_code failed;
      local.open(Local(), failed);
      if (!failed) local.native_non_blocking(true, failed);
      // A Unix socket connects at once or not at all.
      const Local::endpoint name = local_endpoint(peer.host, peer.port);
      if (failed ||
          ::connect(local.native_handle(), name.data(), static_cast<socklen_t>(name.size())) != 0 ||
          !is_of_this_user(local.native_handle()))
        return nullptr;
      return std::make_unique<AsioStream>(std::move(local), peer);
    }
    void end(Outcome<std::unique_ptr<ByteStream>> outcome) {
      if (const Then tell = std::exchange(then, nullptr)) tell(std::move(outcome));
    }
    const IoLoop::OnLoopback sockets;
    Tcp::resolver resolver;
    Tcp::socket socket;
    Then then;
  };
  asio::io_context& context_;
  const IoLoop::OnLoopback sockets_;
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
  std::unique_ptr<StreamAcceptor> listen(const Address& address, OnLoopback sockets) override {
    return std::make_unique<AsioAcceptor>(context_, address, sockets);
  }
  std::unique_ptr<StreamConnector> make_connector(OnLoopback sockets) override {
    return std::make_unique<AsioConnector>(context_, sockets);
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
