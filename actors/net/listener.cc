#include "actors/net/connection.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"

namespace weft::actors {

struct Listener::Impl : std::enable_shared_from_this<Impl> {
  Impl(EventLoop& owner, const Address& address,
       std::function<void(std::shared_ptr<Connection>)> callback, TlsPolicy* protection)
      : loop(owner),
        tls(protection),
        acceptor(owner.io().listen(address, IoLoop::OnLoopback::kUnixOrTcp)),
        pause(owner),
        on_connection(std::move(callback)) {}

  void accept() {
    if (!on_connection) return;
    acceptor->accept([self = shared_from_this()](Outcome<std::unique_ptr<ByteStream>> stream) {
      if (!self->on_connection) return;
      if (!stream.ok()) {  // e.g. no file descriptors left: retries after a pause
        self->pause.start_after(std::chrono::milliseconds(50), [weak = self->weak_from_this()] {
          if (auto alive = weak.lock()) alive->accept();
        });
        return;
      }
      std::unique_ptr<ByteStream> accepted = std::move(stream).value();
      if (self->tls != nullptr) accepted = self->tls->wrap_accepted(std::move(accepted));
      self->on_connection(std::make_shared<Connection>(self->loop, std::move(accepted)));
      self->accept();
    });
  }

  EventLoop& loop;
  TlsPolicy* const tls;
  std::unique_ptr<IoLoop::StreamAcceptor> acceptor;
  Timer pause;
  std::function<void(std::shared_ptr<Connection>)> on_connection;
};

Listener::Listener(EventLoop& loop, const Address& address,
                   std::function<void(std::shared_ptr<Connection>)> on_connection, TlsPolicy* tls)
    : loop_(loop) {
  try {
    impl_ = std::make_shared<Impl>(loop, address, std::move(on_connection), tls);
  } catch (const Error& error) {
    throw_error(ErrorCode::kUnavailable, "cannot listen on {}: {}; choose another address or port",
                to_string(address), error.message());
  }
  address_ = impl_->acceptor->address();
  loop_.post([impl = impl_] { impl->accept(); });
}

Listener::~Listener() {
  loop_.post([impl = impl_] {
    impl->acceptor->close();
    impl->pause.cancel();
    impl->on_connection = nullptr;
  });
}

}  // namespace weft::actors
