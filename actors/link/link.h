#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "actors/link/compatibility.h"
#include "actors/link/route.h"
#include "actors/message/message_frames.h"
#include "actors/supervision/silence_timer.h"

namespace weft::actors {

class Link;

/// Callbacks of a link to the system. Loop's thread only.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_call(Link& link, Call call) = 0;
  virtual void on_reply(Link& link, Reply reply) = 0;
  virtual void on_cancel(Link& link, std::uint64_t call_id) = 0;
  /// Called with values of a generator that this process has called.
  virtual void on_values(Link& link, Values values) = 0;
  /// Called when the reader of a generator of this process has taken values.
  virtual void on_pull(Link& link, const Pull& pull) = 0;
  /// Called when the other side holds calls back for an actor of this process.
  virtual void on_credit_request(Link& link, ActorId actor) = 0;
  /// Reason of a connection's end. kEof: connection lost; kExited: the peer's process ended;
  /// kDisconnected: the peer closed the connection and continues; kProtocolError: another error.
  /// The link is suspended then; the system decides when to close it.
  enum class EndCause { kEof, kExited, kDisconnected, kProtocolError };
  virtual void on_ended(Link& link, EndCause how, const Error& reason) = 0;
};

/// The one connection between this process and a peer, and the route over it.
///
///   connecting --attach()--> open --EOF--> suspended --close()--> closed
///                              '----------close()---------------------^
///
/// Calls may be sent in every state and leave when the link is open. Shared by the system and by
/// the calls that reply over it. Loop's thread: attach(), say_goodbye(), send_heartbeat() and the
/// functions of FrameHandler. Any thread: the rest.
class Link final : public Route, public FrameHandler, public std::enable_shared_from_this<Link> {
 public:
  /// Creates a link without a connection. `beat_interval` is the time between two calls of
  /// send_heartbeat().
  Link(ProcessRef peer, LinkEvents& events, Nanoseconds beat_interval)
      : peer_(std::move(peer)), events_(events), lease_(beat_interval) {}

  /// Takes over the connection after the handshake; reads and writes from now on.
  void attach(std::shared_ptr<Connection> connection, PeerDescription other, bool dialled_here);
  /// Fails the held-back calls with `reason` and closes the connection once its data is written.
  /// Returns the connection, for callers that wait for that.
  std::shared_ptr<Connection> close_connection(const Error& reason);
  void say_goodbye(const Goodbye& goodbye);
  /// Writes a heartbeat if nothing else was written since the last call. Returns how long nothing
  /// was read (see SilenceTimer).
  Nanoseconds send_heartbeat();

  /// Returns the bytes that wait to be sent.
  std::size_t unsent_bytes() const {
    const auto current = connection();
    return current ? current->unsent_bytes() : 0;
  }
  bool attached() const { return connection() != nullptr; }
  /// Time of the last attach(). Loop's thread.
  TimePoint attached_at() const { return attached_at_; }
  /// True if the connection has ended and the system awaits evidence of the cause.
  bool ended() const { return ended_; }
  bool dialled_here() const { return dialled_here_; }
  /// Returns true for the first caller, which dials the peer. False once a connection was attached.
  /// Any thread.
  bool claim_dial() { return !dial_claimed_.exchange(true); }
  /// Returns true if the peer is dialled or was connected. Any thread.
  bool is_dialled() const { return dial_claimed_; }
  /// Returns true if connected and nobody on the way can read the data. Loop's thread.
  bool is_private() const;
  /// True if data has arrived since the handshake. Loop's thread.
  bool has_received() const { return received_; }
  /// Marks the peer as silent or not; returns the previous mark. Loop's thread.
  bool set_suspected(bool quiet) { return std::exchange(quiet_, quiet); }
  const PeerDescription& introduction() const { return introduction_; }

  ProcessRef peer() const override { return peer_; }
  ProcessId peer_id() const { return peer_.id; }
  void reply(Reply reply, bool more) override;
  void grant(const Credit& credit) override;
  void send_values(Values values) override;
  void run_soon(std::function<void()> send) override;
  /// Asks the other side to stop a call that was sent.
  void send_cancel(std::uint64_t call_id);
  /// Tells a generator what its reader has taken.
  void send_pull(const Pull& pull);

  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override;
  void on_batch_end() override;
  void on_closed(const Error& reason) override;

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override;
  void request_credit(ActorId actor) override;
  void flush(bool answer_awaited) override;

 private:
  std::shared_ptr<Connection> connection() const;
  void end(LinkEvents::EndCause how, const Error& reason);

  const ProcessRef peer_;
  LinkEvents& events_;
  PeerDescription introduction_;
  bool dialled_here_ = false;
  bool ended_ = false;
  bool quiet_ = false;
  bool received_ = false;
  TimePoint attached_at_{};
  // shared with its own pending reads; guarded by mutex_, changed on the loop's thread
  std::shared_ptr<Connection> connection_;
  MessageAssembler assembler_;
  SilenceTimer lease_;
  std::atomic<bool> dial_claimed_{false};
  std::atomic<bool> wrote_{false};
  // calls sent without a reply so far: a few are written at once, many together
  std::atomic<int> unanswered_{0};
};

}  // namespace weft::actors
