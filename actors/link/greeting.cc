#include "actors/link/greeting.h"

namespace weft::actors {

namespace {
constexpr auto kLimit = std::chrono::seconds(3);
constexpr std::uint32_t kMaxBody = 64 * 1024;
}  // namespace

Greeting::Greeting(EventLoop& loop, std::shared_ptr<Connection> connection, Side side, Done done)
    : connection_(std::move(connection)), side_(side), done_(std::move(done)), limit_(loop) {}

Greeting::~Greeting() {
  if (connection_) connection_->stop();
}

void Greeting::start(const Introduction& self) {
  limit_.start_after(kLimit, [this] {
    finish(Error(ErrorCode::kUnavailable,
                 fmt::format("{} accepted the connection but said nothing for 3 seconds; is it Weft, and is it alive?",
                             to_string(connection_->peer_address()))));
  });
  connection_->start(*this, kMaxBody);
  if (side_ == Side::kAcceptor) return;
  encode_hello(self, [&](std::span<const std::byte> bytes) { append_message(*connection_, MessageKind::kHello, bytes); });
  connection_->flush();
}

void Greeting::on_frame(const FrameHeader& header, std::span<const std::byte> body) {
  const auto kind = static_cast<MessageKind>(header.kind);
  if (side_ == Side::kAcceptor && kind == MessageKind::kHello) return finish(decode_hello(body));
  if (side_ == Side::kDialler && kind == MessageKind::kWelcome) return finish(decode_welcome(body));
  if (side_ == Side::kDialler && kind == MessageKind::kReject) return finish(decode_reject(body));
  throw_error(ErrorCode::kDataLoss, "{} began with a {} frame instead of a greeting", to_string(connection_->peer_address()),
              to_string(kind));
}

void Greeting::on_closed(const Error& reason) { finish(reason); }

void Greeting::finish(Answer answer) {
  limit_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(answer));
}

}  // namespace weft::actors
