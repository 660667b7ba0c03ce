#pragma once

#include "transfer/wire/wire.h"

namespace weft::transfer {

// Events that a wire has seen outside progress() and keeps until it may call WireEvents. Each is
// the call of the same name, as a value.

struct SendFinished {
  Token token;
  Outcome<void> outcome;
};
struct ReceiveFinished {
  Token token;
  Outcome<void> outcome;
};
struct PeerLost {
  DeviceId peer;
  Error error;
};

inline void dispatch_event(WireEvents& owner, const SendFinished& event) {
  owner.send_finished(event.token, event.outcome);
}
inline void dispatch_event(WireEvents& owner, const ReceiveFinished& event) {
  owner.receive_finished(event.token, event.outcome);
}
inline void dispatch_event(WireEvents& owner, const PeerLost& event) {
  owner.peer_lost(event.peer, event.error);
}

}  // namespace weft::transfer
