#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/system/survey.h"
#include "core/base/clock.h"
#include "core/codec/codec.h"
#include "core/log/log.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

class ActorHost;
class System;

/// Where an actor stands in its mesh; a mesh of one without axes for an actor that was hosted
/// alone.
struct Place {
  std::string mesh;
  MeshShape shape;
  std::int64_t rank = 0;

  std::vector<std::int64_t> coordinates() const { return shape.coordinates(rank); }
  static constexpr auto fields = weft::fields(&Place::mesh, &Place::shape, &Place::rank);
};

/// Runs things on an actor's thread from any other; a copyable value that may outlive the actor.
class Poster final {
 public:
  explicit Poster(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  /// False when the actor has ended: `task` is dropped. Tasks run between handlers and while one is
  /// suspended. Any thread.
  bool post(std::function<void()> task) const { return mailbox_->post(std::move(task)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;  // shared with the host and other posters
};

/// What an actor sees of the world: given to its constructor, valid as long as the actor lives.
///
/// The actor's thread only, except post() and poster().
class Context final {
 public:
  Context(System& system, ActorHost& host, ActorAddress self, Place place)
      : system_(system), host_(host), self_(std::move(self)), place_(std::move(place)) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  System& system() const { return system_; }
  /// With the address that this process listens on now.
  ActorAddress self() const;
  /// "front[data=0,tensor=1]", or the name it was hosted by.
  const std::string& name() const { return self_.label; }
  const Place& place() const { return place_; }

  // Of the handler that runs; outside of handlers (constructor, posted tasks) of the actor itself.
  /// The process that called.
  ProcessRef caller() const;
  /// When the caller stops waiting; TimePoint::max() if never.
  TimePoint deadline() const;
  /// Set when the caller cancelled, its deadline passed, or the actor is being stopped.
  std::stop_token stop_token() const;

  bool post(std::function<void()> task) const { return poster().post(std::move(task)); }
  Poster poster() const;
  Wakeup make_wakeup() const;
  /// Answers MeshRef::reports() from now on, on the I/O thread, whatever the actor is doing: for
  /// what must be known of an actor that is busy or stuck. `report` must not block, and holds what
  /// it reads: it may run when the actor is gone.
  template <typename Make>
  void on_report(Make report) const {
    set_report([report = std::move(report)] { return encode(report()); });
  }
  /// What the actor is at, for who asks why something waits (System::survey): as on_report().
  void on_activity(std::function<ActorActivity()> activity) const;
  /// Of this process. Name the actor in what you write: several share it.
  const Log& log() const;
  /// co_await context.sleep(10ms)
  Wakeup::Waiting sleep(Nanoseconds time) const { return make_wakeup().wait_for(time); }

 private:
  void set_report(std::function<std::vector<std::byte>()> report) const;

  System& system_;
  ActorHost& host_;
  const ActorAddress self_;
  const Place place_;
};

}  // namespace weft::actors
