#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/link/route.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/incoming_calls.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/process_identity.h"

namespace weft::actors {

/// Route of calls within this process: the same order, credit and encoding, without a socket.
class LocalRoute final : public Route, public std::enable_shared_from_this<LocalRoute> {
 public:
  LocalRoute(const ProcessIdentity& identity, const HostedActors& actors, IncomingCalls& incoming,
             OutgoingCalls& outgoing)
      : identity_(identity), actors_(actors), incoming_(incoming), outgoing_(outgoing) {}

  ProcessRef peer() const override { return identity_.process(); }
  void reply(Reply reply, bool) override { outgoing_.finish(std::move(reply)); }
  void grant(const Credit& credit) override { on_credit(credit); }
  void send_values(Values values) override { outgoing_.take_values(std::move(values)); }
  void run_soon(std::function<void()> send) override { send(); }

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override {
    return incoming_.deliver({std::move(outgoing.call), shared_from_this(), outgoing.deadline});
  }
  void request_credit(ActorId actor) override {
    if (const auto credit = actors_.credit_of(this, actor)) on_credit(*credit);
  }
  void flush(bool) override {}

 private:
  const ProcessIdentity& identity_;
  const HostedActors& actors_;
  IncomingCalls& incoming_;
  OutgoingCalls& outgoing_;
};

}  // namespace weft::actors
