// A service that survives `kill -9`. Start the program, and kill the process that it names: the
// next call waits for the restart, and goes to the new process.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "actors/launch/app_main.h"

using namespace weft::actors;
using namespace std::chrono_literals;

/// Counts calls. Its state is lost with its process.
struct Counter {
  explicit Counter(Context& own) : context(own) {}
  /// May run twice: a call that was under way when the process died is repeated.
  task<std::string> count() {
    co_await context.sleep(100ms);
    const std::uint32_t restarts = context.restart_info().attempt;
    co_return fmt::format("pid {}, restarts {}, calls {}", ::getpid(), restarts, ++calls);
  }
  static constexpr auto endpoints =
      interface<"examples.counter", 1>(on<&Counter::count>("count", idempotent));
  Context& context;
  int calls = 0;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Counter>();
  return app.run([](Cluster& cluster, const AppRun& run) {
    const auto counter = cluster.spawn<Counter>(
        "counter", {.process = ActorProcess::kOwn, .restarts = 3, .within = 1min});
    for (int i = 0; i < 100 && !run.stop.stop_requested(); ++i) {
      fmt::print("{}\n", counter.call<&Counter::count>().get());
      std::fflush(stdout);
    }
    return 0;
  });
}
