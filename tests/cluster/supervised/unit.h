#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/launch/app_main.h"
#include "core/base/error.h"

namespace weft::test {

/// Actor that counts, waits, and says in which process it is.
class Unit final {
 public:
  struct State {
    std::int64_t pid = 0;
    std::uint32_t attempt = 0;
    std::string incident;
    int sum = 0;
    static constexpr auto fields =
        weft::fields(&State::pid, &State::attempt, &State::incident, &State::sum);
  };
  using Arguments = std::tuple<std::string>;
  Unit(actors::Context& context, const std::string& mode)
      : context_(context), never_(context.make_wakeup()) {
    if (mode == "fails once" && context.restart_info().attempt == 1)
      throw Error(ErrorCode::kInternal, "the constructor fails once");
  }
  int add(int number) { return sum_ += number; }
  State state() const {
    return {::getpid(), context_.restart_info().attempt, context_.restart_info().incident, sum_};
  }
  /// Ends only in an actor that was restarted.
  actors::task<std::int64_t> wait_for_restart() {
    if (context_.restart_info().attempt == 0) co_await never_.wait();
    co_return ::getpid();
  }
  actors::task<std::int64_t> wait_once() {
    if (context_.restart_info().attempt == 0) co_await never_.wait();
    co_return ::getpid();
  }
  actors::task<std::int64_t> ask(actors::ActorRef<Unit> other) {
    const State state = co_await other.call<&Unit::state>();
    co_return state.pid;
  }
  /// Adds to the actor of that name.
  actors::task<int> add_to(std::string name, int number) {
    const auto other = co_await context_.find<Unit>(name);
    const int sum = co_await other.call<&Unit::add>(number);
    co_return sum;
  }
  /// Passes a handle of the actor of that name through `others`, the last of which adds to it.
  actors::task<int> add_through(std::string name, std::vector<actors::ActorRef<Unit>> others) {
    const auto found = co_await context_.find<Unit>(name);
    const int sum = co_await others.front().call<&Unit::pass_on>(found, others, std::size_t{1});
    co_return sum;
  }
  actors::task<int> pass_on(actors::ActorRef<Unit> target,
                            std::vector<actors::ActorRef<Unit>> others, std::size_t next) {
    if (next == others.size()) {
      const int sum = co_await target.call<&Unit::add>(1);
      co_return sum;
    }
    const int sum = co_await others[next].call<&Unit::pass_on>(target, others, next + 1);
    co_return sum;
  }
  void tell_to(const actors::ActorRef<Unit>& other, int number) {
    (void)other.tell<&Unit::add>(number);
  }
  void exit() { context_.exit("enough"); }
  static constexpr auto endpoints = actors::interface<"test.unit", 1>(
      actors::on<&Unit::add_through>("add_through"), actors::on<&Unit::pass_on>("pass_on"),
      actors::on<&Unit::add_to>("add_to"), actors::on<&Unit::tell_to>("tell_to"),
      actors::on<&Unit::add>("add"), actors::on<&Unit::state>("state", actors::idempotent),
      actors::on<&Unit::wait_for_restart>("wait_for_restart", actors::idempotent),
      actors::on<&Unit::wait_once>("wait_once"), actors::on<&Unit::ask>("ask"),
      actors::on<&Unit::exit>("exit"));

 private:
  actors::Context& context_;
  actors::Wakeup never_;
  int sum_ = 0;
};

inline void expect(bool truth, const std::string& what) {
  if (!truth) throw Error(ErrorCode::kInternal, "expected: " + what);
}

inline Error error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  throw Error(ErrorCode::kInternal, "expected an error");
}

inline void expect_text(const Error& error, const std::string& text) {
  expect(error.message().find(text) != std::string::npos,
         fmt::format("an error with '{}', not '{}'", text, error.message()));
}

inline void kill(std::int64_t pid) { ::kill(static_cast<pid_t>(pid), SIGKILL); }

using Mesh = actors::ActorMesh<Unit>;
using States = std::vector<Unit::State>;

/// Returns options with a process of its own for each actor, so that a kill hits one actor.
inline actors::SpawnOptions own(actors::SpawnOptions options = {}) {
  options.process = actors::ActorProcess::kOwn;
  return options;
}

}  // namespace weft::test
