#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "actors/link/compatibility.h"
#include "actors/link/route.h"
#include "actors/message/chunks.h"
#include "actors/supervision/lease.h"

namespace weft::actors {

class Link;

/// What a link tells the system. Loop's thread only.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_call(Link& link, Call call) = 0;
  virtual void on_reply(Link& link, Reply reply) = 0;
  virtual void on_cancel(Link& link, std::uint64_t call_id) = 0;
  /// The other side holds calls back for an actor here.
  virtual void on_credit_request(Link& link, ActorId actor) = 0;
  /// The connection ended. The link is suspended; the system decides when to close it.
  /// kLeft: the other side has ended; kCutOff: it has given up the connection, and goes on.
  enum class End { kEof, kLeft, kCutOff, kBroken };
  virtual void on_ended(Link& link, End how, const Error& reason) = 0;
};

/// The one connection between this process and another, and the route over it.
///
///   connecting --attach()--> open --EOF--> suspended --close()--> closed
///                              '----------close()---------------------^
///
/// Calls may be sent in every state; they leave when it is open. Shared by the system and by the
/// calls that will reply over it. attach(), say_goodbye(), beat() and the FrameHandler's part:
/// loop's thread. The rest: any thread.
class Link final : public Route, public FrameHandler, public std::enable_shared_from_this<Link> {
 public:
  /// `beat_interval`: between two calls of beat().
  Link(ProcessRef peer, LinkEvents& events, Nanoseconds beat_interval)
      : peer_(std::move(peer)), events_(events), lease_(beat_interval) {}

  /// The handshake is over: reads and writes from now on.
  void attach(std::shared_ptr<Connection> connection, Introduction other, bool dialled_here);
  /// Ends everything that waits, and the connection after what was written; returns it, for who
  /// wants to see that through.
  std::shared_ptr<Connection> shut(const Error& reason);
  void say_goodbye(const Goodbye& goodbye);
  /// Writes a sign of life if nothing else was written since the last time; returns for how long
  /// nothing was read (see Lease).
  Nanoseconds beat();

  bool attached() const { return connection() != nullptr; }
  /// When it last was. Loop's thread.
  TimePoint attached_at() const { return attached_at_; }
  /// The connection was there and has ended: waiting for evidence.
  bool ended() const { return ended_; }
  bool dialled_here() const { return dialled_here_; }
  /// It is there, and nobody on the way reads it. Loop's thread.
  bool is_private() const;
  /// Something has come since the handshake. Loop's thread.
  bool heard() const { return heard_; }
  /// Nothing has come for a while; returns what was said before. Loop's thread.
  bool set_quiet(bool quiet) { return std::exchange(quiet_, quiet); }
  const Introduction& introduction() const { return introduction_; }

  ProcessRef peer() const override { return peer_; }
  ProcessId peer_id() const { return peer_.id; }
  void reply(Reply reply, bool more) override;
  void grant(const Credit& credit) override;
  /// Asks the other side to stop a call that was sent.
  void send_cancel(std::uint64_t call_id);

  void on_frame(const FrameHeader& header, std::span<const std::byte> body) override;
  void on_batch_end() override;
  void on_closed(const Error& reason) override;

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override;
  void ask(ActorId actor) override;
  void flush(bool answer_awaited) override;

 private:
  std::shared_ptr<Connection> connection() const;
  void end(LinkEvents::End how, const Error& reason);

  const ProcessRef peer_;
  LinkEvents& events_;
  Introduction introduction_;
  bool dialled_here_ = false;
  bool ended_ = false;
  bool quiet_ = false;
  bool heard_ = false;
  TimePoint attached_at_{};
  // shared with its own pending reads; guarded by mutex_, changed on the loop's thread
  std::shared_ptr<Connection> connection_;
  MessageAssembler assembler_;
  Lease lease_;
  std::atomic<bool> wrote_{false};
  // calls sent whose replies have not come: few of them are written at once, many together
  std::atomic<int> unanswered_{0};
};

}  // namespace weft::actors
