#include "actors/system/internal/acceptor.h"

#include <fmt/format.h>

#include <utility>

namespace weft::actors {

namespace {

/// Maximum age of a connection for another one from the same process to count as a duplicate: two
/// of its threads dialled. A process that lost its connection takes longer to notice that.
constexpr auto kDuplicateDialWindow = std::chrono::seconds(3);

/// Sets the host of a process that listens on every address: the one that its connection comes
/// from.
void complete_address(PeerDescription& other, const Connection& connection) {
  Address& address = other.process.address;
  if (address.port != 0 && is_any_address(address.host))
    address.host = connection.peer_address().host;
}

}  // namespace

Address Acceptor::listen(const Address& address) {
  auto listener = std::make_unique<Listener>(
      loop_, address,
      [this](std::shared_ptr<Connection> connection) {
        handshakes_.start(std::move(connection), Handshake::Side::kAcceptor,
                          [this](Handshake& handshake, Handshake::Answer answer) {
                            on_answer(handshake, std::move(answer));
                          });
      },
      &tls_);
  Address advertised = listener->address();
  if (!options_.advertise_host.empty()) advertised.host = options_.advertise_host;
  identity_.set_address(advertised);
  listener_ = std::move(listener);
  return advertised;
}

void Acceptor::on_answer(Handshake& handshake, Handshake::Answer answer) {
  if (auto* other = std::get_if<PeerDescription>(&answer))
    return on_introduction(handshake, std::move(*other));
  const auto* reject = std::get_if<Reject>(&answer);
  refusals_.refused(
      handshake.connection()->peer_address(),
      reject != nullptr ? to_error(*reject).message() : std::get<Error>(answer).message());
}

void Acceptor::on_introduction(Handshake& handshake, PeerDescription other) {
  const PeerDescription me = identity_.introduction();
  complete_address(other, *handshake.connection());
  if (const auto refusal = find_refusal(me, other, handshake.token()))
    return refuse(handshake, *refusal);
  if (const auto refusal = replace_link(me, other)) return refuse(handshake, *refusal);
  links_.cancel_dial(other.process.id);
  const std::shared_ptr<Link> link = links_.find_or_add(other.process);
  append_message(*handshake.connection(), MessageKind::kWelcome, {});
  handshakes_.attach(link, handshake, std::move(other), false);
}

std::optional<Acceptor::ConnectionRefusal> Acceptor::find_refusal(const PeerDescription& me,
                                                                  const PeerDescription& other,
                                                                  const Secret& proven) const {
  if (auto reject = find_incompatibility(me, other)) return ConnectionRefusal{*std::move(reject)};
  if (!token_.admits(proven, other.process.id))
    return ConnectionRefusal{
        {ErrorCode::kFailedPrecondition,
         fmt::format("{} uses a token that was replaced, and was not connected to "
                     "the cluster at that time",
                     describe(other)),
         "give it the new one, of the file that `weft head` has named", false, me.process.id}};
  // A connection that is meant for another process must not replace one to this process.
  if (other.wanted.head && !options_.is_head)
    return ConnectionRefusal{{ErrorCode::kUnavailable,
                              fmt::format("{} tried to connect to a head, but {} is not a head",
                                          describe(other), describe(me)),
                              "give the address that `weft head` has printed", false,
                              me.process.id}};
  if (other.wanted.process != ProcessId() && other.wanted.process != me.process.id)
    return ConnectionRefusal{{ErrorCode::kPeerDied,
                              fmt::format("the requested process has exited: {} now listens at {}",
                                          me.process.name, to_string(me.process.address)),
                              "", false, me.process.id},
                             false};
  if (const auto death = links_.death_of(other.process.id))
    return ConnectionRefusal{{ErrorCode::kFailedPrecondition,
                              fmt::format("{} has declared {} dead: {}", me.process.name,
                                          describe(other), death->message()),
                              "start the process again", false, me.process.id}};
  return std::nullopt;
}

std::optional<Acceptor::ConnectionRefusal> Acceptor::replace_link(const PeerDescription& me,
                                                                  const PeerDescription& other) {
  const std::shared_ptr<Link> link = links_.find(other.process.id);
  if (!link) return std::nullopt;
  if (link->ended()) {
    links_.drop(link,
                Error(ErrorCode::kPeerDied,
                      fmt::format("{} lost its connection and reconnected", describe(other))),
                DisconnectCause::kDisconnected);
    return std::nullopt;
  }
  if (!link->is_dialled()) return std::nullopt;
  const auto duplicate = [&](const char* why) {
    return ConnectionRefusal{{ErrorCode::kAlreadyExists, why, "", true, me.process.id}, false};
  };
  // Both dialled at once: the connection of the process with the smaller id stays.
  if ((!link->attached() || link->dialled_here()) && me.process.id < other.process.id)
    return duplicate("both processes connect at once");
  if (!link->attached()) return std::nullopt;
  if (SteadyClock().now() - link->attached_at() < kDuplicateDialWindow)
    return duplicate("this process has just connected");
  links_.drop(link, Error(ErrorCode::kPeerDied, fmt::format("{} reconnected", describe(other))),
              DisconnectCause::kDisconnected);
  return std::nullopt;
}

void Acceptor::refuse(Handshake& handshake, const ConnectionRefusal& refusal) {
  if (refusal.is_logged)
    refusals_.refused(handshake.connection()->peer_address(), refusal.reject.text);
  handshake.refuse(refusal.reject);
}

}  // namespace weft::actors
