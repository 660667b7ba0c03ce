#include "apps/cluster_view/head_client.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <utility>

#include "actors/access/connection_security.h"
#include "actors/access/token.h"
#include "core/base/error.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

constexpr auto kConnectWithin = std::chrono::seconds(1);
constexpr auto kHeadComesBackWithin = std::chrono::seconds(60);
constexpr auto kLookAgainAfter = std::chrono::milliseconds(100);

actors::SystemOptions options_of(const ClusterAccess& access, const std::string& name) {
  actors::SystemOptions options;
  options.name = name;
  options.log = Log::standard_error(LogLevel::kWarning);
  const auto head = actors::Address::parse(access.head);
  options.token = actors::find_token(head, access.token_file);
  actors::find_protection(head, access.token_file, access.certificate, access.insecure)
      .apply(head, options);
  return options;
}

}  // namespace

HeadClient::HeadClient(const ClusterAccess& access, const std::string& name)
    : address_(actors::Address::parse(access.head)), system_(options_of(access, name)) {
  system_.on_peer_disconnected(
      [this](const actors::ProcessRef&, const Error&, actors::DisconnectCause) {
        const std::lock_guard lock(mutex_);
        lost_ = true;
        changed_.notify_all();
      });
  try {
    head_ = system_.connect(address_, kConnectWithin, {.head = true});
  } catch (const Error& error) {
    // Rethrows other errors as they are: a server that accepts but does not answer, an unknown host
    // name.
    if (error.code() != ErrorCode::kUnavailable || !error.message().starts_with("cannot connect"))
      throw;
    throw_error(ErrorCode::kUnavailable,
                "no head answers at {}; give its address with --head HOST:PORT or in WEFT_HEAD, "
                "or start one: weft head",
                access.head);
  }
}

actors::ActorRef<actors::Head> HeadClient::head() {
  return system_.named<actors::Head>(head_, "head");
}

void HeadClient::wait(Nanoseconds time) {
  std::unique_lock lock(mutex_);
  // Only the time can end the wait if there is no connection.
  const bool was_lost = lost_;
  changed_.wait_for(lock, time, [&] { return lost_ != was_lost; });
}

void HeadClient::reconnect_head(const Error& error, HeadOutage& absence) {
  const bool away = error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable;
  if (!away || SteadyClock().now() - absence.since > kHeadComesBackWithin) throw Error(error);
  if (!std::exchange(absence.told, true))
    say(stderr, "weft: the head at {} does not respond ({}); retrying for up to 60 s\n",
        to_string(address_), error.message());
  wait(kLookAgainAfter);
  try {
    head_ = system_.connect(address_, kConnectWithin, {.head = true});
    const std::lock_guard lock(mutex_);
    lost_ = false;
  } catch (const Error&) {
    // retried by the next call
  }
}

}  // namespace weft::apps
