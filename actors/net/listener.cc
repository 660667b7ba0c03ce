#include "actors/net/connection.h"

#include <asio/ip/tcp.hpp>

#include "actors/net/internal/asio_loop.h"
#include "actors/net/internal/socket.h"

namespace weft::actors {

struct Listener::Impl : std::enable_shared_from_this<Impl> {
  Impl(EventLoop& owner, std::function<void(std::shared_ptr<Connection>)> callback)
      : loop(owner),
        acceptor(owner.impl().context),
        pause(owner),
        on_connection(std::move(callback)) {}

  void accept() {
    acceptor.async_accept(
        [self = shared_from_this()](const asio::error_code& error, asio::ip::tcp::socket socket) {
          if (!self->acceptor.is_open() || error == asio::error::operation_aborted) return;
          if (error) {  // such as no file descriptors left: give others time to close theirs
            self->pause.start_after(std::chrono::milliseconds(50), [weak = self->weak_from_this()] {
              if (auto alive = weak.lock()) alive->accept();
            });
            return;
          }
          self->on_connection(make_connection(self->loop, std::move(socket)));
          self->accept();
        });
  }

  EventLoop& loop;
  asio::ip::tcp::acceptor acceptor;
  Timer pause;
  std::function<void(std::shared_ptr<Connection>)> on_connection;
};

Listener::Listener(EventLoop& loop, const Address& address,
                   std::function<void(std::shared_ptr<Connection>)> on_connection)
    : loop_(loop),
      impl_(std::make_shared<Impl>(loop, std::move(on_connection))),
      address_(address) {
  try {
    asio::error_code not_numeric;
    asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address.host, not_numeric),
                                     address.port);
    if (not_numeric) {
      asio::ip::tcp::resolver resolver(loop.impl().context);
      endpoint = *resolver.resolve(address.host, std::to_string(address.port)).begin();
    }
    impl_->acceptor.open(endpoint.protocol());
    impl_->acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true));
    impl_->acceptor.bind(endpoint);
    impl_->acceptor.listen();
    address_.port = impl_->acceptor.local_endpoint().port();
  } catch (const std::system_error& error) {
    throw_error(ErrorCode::kUnavailable, "cannot listen on {}: {}; choose another address or port",
                to_string(address), error.code().message());
  }
  loop_.post([impl = impl_] { impl->accept(); });
}

Listener::~Listener() {
  loop_.post([impl = impl_] {
    asio::error_code ignored;
    impl->acceptor.close(ignored);
    impl->pause.cancel();
    impl->on_connection = nullptr;
  });
}

}  // namespace weft::actors
