#include "actors/system/internal/handshakes.h"

#include <fmt/format.h>

namespace weft::actors {

namespace {
/// Limit of incoming connections without a proven token. One more replaces the oldest, so that a
/// peer that proves itself at once gets in beside any number that do not.
constexpr std::size_t kMaxIncoming = 256;
}  // namespace

void Handshakes::start(std::shared_ptr<Connection> connection, Handshake::Side side, Done done,
                       ExpectedPeer wanted) {
  auto& handshakes = side == Handshake::Side::kAcceptor ? incoming_ : outgoing_;
  if (side == Handshake::Side::kAcceptor && handshakes.size() >= kMaxIncoming) {
    const auto oldest = handshakes.begin();
    refusals_.refused(
        oldest->second->connection()->peer_address(),
        fmt::format("too many unauthenticated connections ({}); the oldest was closed",
                    kMaxIncoming));
    handshakes.erase(oldest);
  }
  const std::uint64_t number = next_++;
  // The callback holds only a weak pointer, as the handshake owns the callback.
  const auto itself = std::make_shared<std::weak_ptr<Handshake>>();
  auto handshake = std::make_shared<Handshake>(
      loop_, std::move(connection), side, token_.usable(),
      [this, itself, number, &handshakes, done = std::move(done)](Handshake::Answer answer) {
        const std::shared_ptr<Handshake> finished = itself->lock();
        handshakes.erase(number);
        done(*finished, std::move(answer));
        // destroyed later: a function of it is still running
        loop_.post([finished] {});
      });
  *itself = handshake;
  handshakes.emplace(number, handshake);
  PeerDescription me = identity_.introduction();
  me.wanted = wanted;
  handshake->start(std::move(me));
}

void Handshakes::attach(const std::shared_ptr<Link>& link, Handshake& handshake,
                        PeerDescription other, bool dialled_here) {
  if (other.minor != kProtocolMinor)
    log_.info("{} speaks protocol {}.{}, this process {}.{}: both use the lower one",
              describe(other), kProtocolMajor, other.minor, kProtocolMajor, kProtocolMinor);
  auto connection = handshake.release();
  link->attach(connection, std::move(other), dialled_here);
  token_.update_peer(*link, handshake.token());
  connection->flush();
  links_.notify_attached();
}

void Handshakes::clear() {
  incoming_.clear();
  outgoing_.clear();
}

}  // namespace weft::actors
